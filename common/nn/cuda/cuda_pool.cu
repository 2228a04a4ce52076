/*
 * The operations after a convolution's product, in one pass over its result: bias, relu, and the
 * largest of each 2 x 2, the first of equals, as in PyTorch. Relu comes after pooling: the same
 * result from a quarter of the units.
 */
#include <cuda_runtime.h>

#include "common/nn/cuda/cuda_kernels.h"
#include "common/nn/cuda/cuda_launch.h"
#include "common/nn/cuda/cuda_types.h"

enum { BLOCK = 256 };

static __global__ void bias_relu_pool(int count, int size, int channels, const float *z,
                                      const float *bias, float *y, uint8_t *argmax)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count)
        return;
    const int pooled = size / 2, c = i % channels, unit = i / channels;
    const int image = unit / pooled / pooled, row = 2 * (unit / pooled % pooled);
    const float *above = z + ((image * size + row) * size + 2 * (unit % pooled)) * channels + c;
    const float *below = above + size * channels;
    const int right_above = above[channels] > above[0];
    const int right_below = below[channels] > below[0];
    const float upper = right_above ? above[channels] : above[0];
    const float lower = right_below ? below[channels] : below[0];
    const float largest = (lower > upper ? lower : upper) + bias[c];
    const bool is_nan = isnan(above[0]) || isnan(above[channels]) || isnan(below[0]) ||
                        isnan(below[channels]); // which loses all comparisons
    y[i] = is_nan ? NAN : largest < 0 ? 0 : largest;
    argmax[i] = lower > upper ? 2 + right_below : right_above;
}

extern "C" void cuda_bias_relu_pool(int images, int size, int channels, const float *z,
                                    const float *bias, float *y, uint8_t *argmax,
                                    cudaStream_t stream)
{
    const int count = images * (size / 2) * (size / 2) * channels;
    LAUNCH(bias_relu_pool, cuda_blocks(count, BLOCK), BLOCK, stream, count, size, channels, z, bias,
           y, argmax);
}

/* Every unit checks whether it was the largest; an odd last row or column never was. */
template <typename T>
static __global__ void unpool_kernel(int count, int size, int channels, const float *dy,
                                     const uint8_t *argmax, T *dz)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count)
        return;
    const int c = i % channels, place = i / channels, pooled = size / 2;
    const int column = place % size, row = place / size % size, image = place / size / size;
    float gradient = 0;
    if (row / 2 < pooled && column / 2 < pooled) {
        const int unit = ((image * pooled + row / 2) * pooled + column / 2) * channels + c;
        if (argmax[unit] == row % 2 * 2 + column % 2)
            gradient = dy[unit];
    }
    store(&dz[i], gradient);
}

template <typename T>
static void unpool(int images, int size, int channels, const float *dy, const uint8_t *argmax,
                   void *dz, cudaStream_t stream)
{
    const int count = images * size * size * channels;
    LAUNCH(unpool_kernel<T>, cuda_blocks(count, BLOCK), BLOCK, stream, count, size, channels, dy,
           argmax, (T *)dz);
}

extern "C" void cuda_unpool(int images, int size, int channels, Amp amp, const float *dy,
                            const uint8_t *argmax, void *dz, cudaStream_t stream)
{
    FOR_TYPE(amp, unpool, images, size, channels, dy, argmax, dz, stream);
}
