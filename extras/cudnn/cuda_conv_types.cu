/*
 * The passes around cuDNN's products with --amp: they read 16 bits, and compute and write float32.
 * A thread has up to four numbers.
 */
#include "common/nn/cuda/cuda_launch.h"
#include "extras/cudnn/conv_types.h"

enum { BLOCK = 256 };

template <typename T, int COUNT>
static inline __device__ Pack<float, COUNT> load_wide(const T *from)
{
    const Pack<T, COUNT> numbers = load_pack<T, COUNT>(from);
    Pack<float, COUNT> wide;
    for (int j = 0; j < COUNT; j++)
        wide.value[j] = float(numbers.value[j]);
    return wide;
}

/* As pool_kernel in cuda_pointwise.cu: of equals the first, of nans the last. */
template <typename T, int COUNT>
static __global__ void pool_short(ConvShape shape, size_t count, const T *z, const float *bias,
                                  float *y, uint8_t *argmax)
{
    const size_t i = my_index<BLOCK>() * COUNT;
    if (i >= count)
        return;
    const int size = out_size(shape), channels = shape.out_channels, pooled = size / 2;
    const int c = (int)(i % channels);
    const size_t unit = i / channels, image = unit / pooled / pooled;
    const size_t row = 2 * (unit / pooled % pooled), column = 2 * (unit % pooled);
    const T *above = z + ((image * size + row) * size + column) * channels + c;
    Pack<float, COUNT> largest = load_wide<T, COUNT>(above);
    Pack<uint8_t, COUNT> which = {};
    for (int corner = 1; corner < 4; corner++) {
        const Pack<float, COUNT> other =
            load_wide<T, COUNT>(above + (corner / 2 * size + corner % 2) * channels);
        for (int j = 0; j < COUNT; j++)
            if (other.value[j] > largest.value[j] || isnan(other.value[j])) {
                largest.value[j] = other.value[j];
                which.value[j] = corner;
            }
    }
    for (int j = 0; j < COUNT; j++) {
        const float sum = largest.value[j] + bias[c + j];
        largest.value[j] = sum < 0 ? 0 : sum;
    }
    store_pack(y + i, largest);
    store_pack(argmax + i, which);
}

template <typename T>
static void pool(ConvShape shape, int images, const void *z, const float *bias, float *y,
                 uint8_t *argmax, cudaStream_t stream)
{
    const size_t pooled = out_size(shape) / 2,
                 count = images * pooled * pooled * shape.out_channels;
    if (shape.out_channels % 4 == 0)
        LAUNCH((pool_short<T, 4>), cuda_blocks(count / 4, BLOCK), BLOCK, stream, shape, count,
               (const T *)z, bias, y, argmax);
    else
        LAUNCH((pool_short<T, 1>), cuda_blocks(count, BLOCK), BLOCK, stream, shape, count,
               (const T *)z, bias, y, argmax);
}

extern "C" void cuda_bias_relu_pool_short(ConvShape shape, int images, Amp amp, const void *z,
                                          const float *bias, float *y, uint8_t *argmax,
                                          cudaStream_t stream)
{
    if (amp == AMP_BF16)
        pool<__nv_bfloat16>(shape, images, z, bias, y, argmax, stream);
    else
        pool<__half>(shape, images, z, bias, y, argmax, stream);
}

template <typename T, int COUNT>
static __global__ void widen_kernel(size_t count, const T *from, bool add, float *to)
{
    const size_t i = my_index<BLOCK>() * COUNT;
    if (i >= count)
        return;
    Pack<float, COUNT> numbers = load_wide<T, COUNT>(from + i);
    for (int j = 0; add && j < COUNT; j++)
        numbers.value[j] += to[i + j];
    store_pack(to + i, numbers);
}

template <typename T>
static void widen(size_t count, const void *from, bool add, float *to, cudaStream_t stream)
{
    if (count % 4 == 0 && (uintptr_t)to % sizeof(Pack<float, 4>) == 0) // some slices begin anywhere
        LAUNCH((widen_kernel<T, 4>), cuda_blocks(count / 4, BLOCK), BLOCK, stream, count,
               (const T *)from, add, to);
    else
        LAUNCH((widen_kernel<T, 1>), cuda_blocks(count, BLOCK), BLOCK, stream, count,
               (const T *)from, add, to);
}

extern "C" void cuda_widen(size_t count, Amp amp, const void *from, bool add, float *to,
                           cudaStream_t stream)
{
    if (amp == AMP_BF16)
        widen<__nv_bfloat16>(count, from, add, to, stream);
    else
        widen<__half>(count, from, add, to, stream);
}
