/*
 * The rows of a batch, from the data set to where the model reads them: a block for each. Pixels
 * stay bytes until here, which is a quarter of the memory and, where the set does not fit on the
 * device, a quarter of what crosses the bus.
 */
#include <cuda_runtime.h>

#include "common/nn/cuda_kernels.h"
#include "common/nn/cuda_launch.h"

enum { BLOCK = 256 };

static __global__ void gather(int features, CudaRows from, const int32_t *rows, float *inputs,
                              uint32_t *words)
{
    const size_t row = (size_t)rows[blockIdx.x];
    float *input = inputs + (size_t)blockIdx.x * features;
    for (int i = threadIdx.x; i < features; i += BLOCK)
        input[i] = from.bytes != NULL ? from.normalised[from.bytes[row * features + i]]
                                      : from.floats[row * features + i];
    if (threadIdx.x == 0)
        words[blockIdx.x] = from.words[row];
}

extern "C" void cuda_gather(int n, int features, CudaRows from, const int32_t *rows, float *inputs,
                            uint32_t *words, cudaStream_t stream)
{
    LAUNCH(gather, n, BLOCK, stream, features, from, rows, inputs, words);
}
