/* kernels.h - shared by the tests of a device's kernels: CPUs with 1, 2 and 3 threads, fast and
 * plain, or one GPU; memory, random numbers and comparisons. Arrays of floats are device memory,
 * which fetch reads. */
#ifndef TESTS_COMMON_NN_KERNELS_H
#define TESTS_COMMON_NN_KERNELS_H

#include <stdlib.h>

#include "common/nn/device.h"
#include "tests/common/nn/on_device.h"
#include "tests/common/nn/reference.h"
#include "tests/helpers/exact.h"

enum { MAX_THREADS = 3, MAX_KEPT = 8192 };

static Rng rng;
static Device devices[2 * MAX_THREADS]; // CPUs: devices[i] has i % MAX_THREADS + 1 threads
static int num_devices;

/* A test's memory, freed after it. */
static struct {
    void *memory;
    bool on_device;
} kept[MAX_KEPT];
static int num_kept;

static inline void *keep_memory(void *memory, bool on_device)
{
    assert_true(num_kept < MAX_KEPT);
    kept[num_kept].memory = memory;
    kept[num_kept++].on_device = on_device;
    return memory;
}

static inline void *keep(size_t numel, size_t size)
{
    return keep_memory(mem_calloc(numel, size), false);
}

/* Allocates zeroed device memory. All CPUs share theirs. */
static inline void *keep_on_device(size_t numel, size_t size)
{
    return keep_memory(device_malloc(&devices[0], numel * size), true);
}

static inline int forget(void **state)
{
    (void)state;
    while (num_kept > 0)
        if (kept[--num_kept].on_device)
            device_release(&devices[0], kept[num_kept].memory);
        else
            free(kept[num_kept].memory);
    return 0;
}

static inline int setup(void **state)
{
    (void)state;
    rng_seed(&rng, 1);
    num_devices = !tests_a_cpu()                  ? 1
                  : getenv("TEST_DEVICE") != NULL ? MAX_THREADS
                                                  : 2 * MAX_THREADS;
    for (int i = 0; i < num_devices; i++) {
        Args args = { .device = i < MAX_THREADS ? test_device_kind() : DEVICE_PLAIN,
                      .threads = i % MAX_THREADS + 1 };
        if (getenv("TEST_CONV") != NULL)
            option_set(args_option("conv"), &args, getenv("TEST_CONV"), NULL);
        device_init(&devices[i], &args, 0);
    }
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < num_devices; i++)
        device_free(&devices[i]);
    return 0;
}

static inline void *to_device(const void *host, size_t bytes)
{
    void *memory = keep_on_device(bytes, 1);
    device_copy(&devices[0], memory, host, bytes, COPY_TO_DEVICE);
    return memory;
}

/* Copies device memory to host memory. */
static inline void *fetch(const void *memory, size_t bytes)
{
    return keep_memory(copied_from(&devices[0], memory, bytes), false);
}

static inline float *fetch_floats(const float *values, size_t numel)
{
    return fetch(values, numel * sizeof *values);
}

static inline float *zeros(size_t numel)
{
    return keep_on_device(numel, sizeof(float));
}

static inline float *random_floats(size_t numel)
{
    float *values = keep(numel, sizeof *values);
    for (size_t i = 0; i < numel; i++)
        values[i] = rng_uniform_between(&rng, -1, 1);
    return to_device(values, numel * sizeof *values);
}

static inline double *as_double(const float *values, size_t numel)
{
    const float *host = fetch_floats(values, numel);
    double *copy = keep(numel, sizeof *copy);
    for (size_t i = 0; i < numel; i++)
        copy[i] = host[i];
    return copy;
}

/* Converts images from channels last to channels first. */
static inline double *channels_first(int n, int channels, int pixels, const float *images)
{
    const float *host = fetch_floats(images, (size_t)n * channels * pixels);
    double *copy = keep((size_t)n * channels * pixels, sizeof *copy);
    for (int i = 0; i < n; i++)
        for (int p = 0; p < pixels; p++)
            for (int c = 0; c < channels; c++)
                copy[(i * channels + c) * pixels + p] = host[(i * pixels + p) * channels + c];
    return copy;
}

/* Compares relative to the largest of them. */
static inline void assert_close(const double *actual, const double *expected, size_t numel)
{
    double largest = 0, error = 0;
    for (size_t i = 0; i < numel; i++) {
        largest = fmax(largest, fabs(expected[i]));
        error = fmax(error, fabs(actual[i] - expected[i]));
        assert_false(isnan(actual[i]));
    }
    if (error > 1e-5 * largest)
        fail_msg("error %g of values up to %g", error, largest);
}

static inline void assert_floats_close(const float *actual, const double *expected, size_t numel)
{
    assert_close(as_double(actual, numel), expected, numel);
}

static inline float *copy_of(const float *values, size_t numel)
{
    float *copy = zeros(numel);
    device_copy(&devices[0], copy, values, numel * sizeof *copy, COPY_ON_DEVICE);
    return copy;
}

static inline void assert_same_bits(const void *a, const void *b, size_t bytes)
{
    assert_int_equal(memcmp(fetch(a, bytes), fetch(b, bytes), bytes), 0);
}

#endif
