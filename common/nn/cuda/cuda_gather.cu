/*
 * Copies the rows of a batch from the data set to the model's input, a block for each. Pixels stay
 * bytes until here: a quarter of the memory and, if the set does not fit on the device, of the
 * traffic on the bus.
 */
#include <cuda_runtime.h>

#include "common/nn/cuda/cuda_kernels.h"
#include "common/nn/cuda/cuda_launch.h"

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
