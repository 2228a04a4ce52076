/* gpu_arrays.h - for tests: the arrays of collective cases in GPU memory. */
#ifndef TESTS_CUDA_GPU_ARRAYS_H
#define TESTS_CUDA_GPU_ARRAYS_H

#include "common/base/cuda.h"
#include "tests/common/comm/collective_case.h"

static cudaStream_t compute; // this rank's compute stream

/* Copies these numbers to new device memory and back, ordered on the compute stream. */
static inline void *gpu_array_new(const void *initial, size_t bytes)
{
    void *array;
    CUDA_CHECK(cudaMalloc(&array, bytes));
    CUDA_CHECK(cudaMemcpyAsync(array, initial, bytes, cudaMemcpyHostToDevice, compute));
    return array;
}

static inline void gpu_array_read(void *to, const void *array, size_t bytes)
{
    CUDA_CHECK(cudaMemcpyAsync(to, array, bytes, cudaMemcpyDeviceToHost, compute));
    CUDA_CHECK(cudaStreamSynchronize(compute));
}

static inline void gpu_array_free(void *array)
{
    CUDA_CHECK(cudaFree(array));
}

/* Makes this rank compute on GPU number `index`, and places the arrays of cases there. */
static inline MemoryLocation gpu_use(int index)
{
    static const CaseMemory memory = { gpu_array_new, gpu_array_read, gpu_array_free };
    CUDA_CHECK(cudaSetDevice(index));
    CUDA_CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    case_memory = &memory;
    return (MemoryLocation){ .on_gpu = true, .index = index, .stream = compute };
}

#endif
