/* Arrays in the memory of the host or of a GPU. */
#include <stdlib.h>
#include <string.h>

#include "common/base/cuda.h"
#include "common/base/memory.h"

void *place_alloc(MemoryLocation place, size_t bytes)
{
    void *array = NULL;
    if (place.on_gpu)
        CUDA_CHECK(cudaMalloc(&array, bytes));
    return place.on_gpu ? array : mem_alloc(bytes, 1);
}

void place_free(MemoryLocation place, void *array)
{
    if (place.on_gpu)
        CUDA_CHECK(cudaFree(array)); // waits for work that still uses it
    else
        free(array);
}

void place_copy(MemoryLocation place, void *to, const void *from, size_t bytes)
{
    if (place.on_gpu)
        CUDA_CHECK(
            cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, (cudaStream_t)place.stream));
    else
        memcpy(to, from, bytes);
}
