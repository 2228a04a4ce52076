/* stand_in_case.h - shared by the tests of CUDA's stand-in: parts of programs that must be right or
 * be found wrong. Each runs in a child, because a process that used CUDA must not fork. */
#ifndef TESTS_CUDA_STAND_IN_CASE_H
#define TESTS_CUDA_STAND_IN_CASE_H

#include "tests/helpers/child.h"

#include <cuda_runtime_api.h>
#include <math.h>

#include "common/base/cuda.h"
#include "common/base/memory.h"
#include "tests/cuda/stand_in_kernels.h"

enum { SEEDS = 8, N = 1000 };

static inline float *device_floats(size_t numel)
{
    float *memory;
    CUDA_CHECK(cudaMalloc((void **)&memory, numel * sizeof *memory));
    return memory;
}

static inline float *pinned_floats(size_t numel, float value)
{
    float *memory;
    CUDA_CHECK(cudaMallocHost((void **)&memory, numel * sizeof *memory));
    for (size_t i = 0; i < numel; i++)
        memory[i] = value;
    return memory;
}

/* Returns device memory with values[i] = i * i % 31. */
static inline float *numbers_on_device(size_t numel)
{
    float *host = mem_calloc(numel, sizeof *host), *memory = device_floats(numel);
    for (size_t i = 0; i < numel; i++)
        host[i] = (float)(i * i % 31);
    CUDA_CHECK(cudaMemcpy(memory, host, numel * sizeof *host, cudaMemcpyHostToDevice));
    free(host);
    return memory;
}

static inline void fetch(float *to, const float *from, size_t numel)
{
    CUDA_CHECK(cudaMemcpy(to, from, numel * sizeof *to, cudaMemcpyDeviceToHost));
}

static inline cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline cudaEvent_t recorded(cudaStream_t stream)
{
    cudaEvent_t event;
    CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventRecord(event, stream));
    return event;
}

/* Returns under how many of SEEDS seeds the body succeeds. The others must fail a CHECK. */
static inline int good_seeds(Body *body)
{
    int good = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        char text[12];
        snprintf(text, sizeof text, "%d", seed);
        setenv("CUDA_STAND_IN_SEED", text, 1);
        const int status = child_run(body, NULL);
        if (status > 1)
            fail_msg("status %d: %s", status, err);
        good += status == 0;
    }
    unsetenv("CUDA_STAND_IN_SEED");
    return good;
}

static inline void assert_right(Body *body)
{
    if (good_seeds(body) != SEEDS)
        fail_msg("%s", err);
}

static inline void assert_found(Body *body)
{
    assert_int_not_equal(good_seeds(body), SEEDS);
}

static inline void assert_aborts(Body *body, const char *words)
{
    assert_dies(body, NULL, 128 + SIGABRT, (const char *[]){ "cuda stand-in: ", words, NULL });
}

#endif
