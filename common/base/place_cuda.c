/* Copies between the host and whatever memory an array is in. */
#include <string.h>

#include "common/base/cuda.h"
#include "common/base/memory.h"

void place_copy(MemoryLocation place, void *to, const void *from, size_t bytes)
{
    if (!place.on_gpu) {
        memcpy(to, from, bytes);
        return;
    }
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, (cudaStream_t)place.stream));
    CUDA_CHECK(cudaStreamSynchronize((cudaStream_t)place.stream));
}
