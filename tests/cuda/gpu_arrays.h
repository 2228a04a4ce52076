/* gpu_arrays.h - for tests: the arrays of collective cases in the memory of a GPU. */
#ifndef TESTS_CUDA_GPU_ARRAYS_H
#define TESTS_CUDA_GPU_ARRAYS_H

#include "common/base/cuda.h"
#include "tests/common/comm/collective_case.h"

static cudaStream_t compute; // of this rank

/* Device memory with these numbers in it, in the order of the compute stream, and back. */
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

/* From now on this rank computes on GPU number `index`, and the arrays of cases lie there. */
static inline MemoryLocation gpu_use(int index)
{
    static const CaseMemory memory = { gpu_array_new, gpu_array_read, gpu_array_free };
    CUDA_CHECK(cudaSetDevice(index));
    CUDA_CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    case_memory = &memory;
    return (MemoryLocation){ .on_gpu = true, .index = index, .stream = compute };
}

#endif
