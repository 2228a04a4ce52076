/* Elementwise kernels, a thread for each number. */
#include <cuda_runtime.h>

#include "common/nn/cuda/cuda_kernels.h"
#include "common/nn/cuda/cuda_launch.h"
#include "common/nn/cuda/cuda_types.h"

enum { BLOCK = 256 };

static inline __device__ size_t my_index(void)
{
    return (size_t)blockIdx.x * BLOCK + threadIdx.x;
}

template <typename T> static __global__ void round_kernel(size_t count, const float *from, T *to)
{
    const size_t i = my_index();
    if (i < count)
        store(&to[i], from[i]);
}

template <typename T>
static void round_all(size_t count, const float *from, void *to, cudaStream_t stream)
{
    LAUNCH(round_kernel<T>, cuda_blocks(count, BLOCK), BLOCK, stream, count, from, (T *)to);
}

extern "C" void cuda_round(size_t count, Amp amp, const float *from, void *to, cudaStream_t stream)
{
    FOR_TYPE(amp, round_all, count, from, to, stream);
}

static __global__ void add_bias(size_t count, int columns, bool relu, const float *bias, float *y)
{
    const size_t i = my_index();
    if (i >= count)
        return;
    const float value = y[i] + bias[i % columns];
    y[i] = relu && value < 0 ? 0 : value;
}

extern "C" void cuda_add_bias(size_t rows, int columns, bool relu, const float *bias, float *y,
                              cudaStream_t stream)
{
    const size_t count = rows * columns;
    LAUNCH(add_bias, cuda_blocks(count, BLOCK), BLOCK, stream, count, columns, relu, bias, y);
}

static __global__ void relu_grad(size_t count, const float *y, float scale, float *dy)
{
    const size_t i = my_index();
    if (i < count)
        dy[i] = y[i] > 0 ? dy[i] * scale : 0;
}

extern "C" void cuda_relu_grad(size_t count, const float *y, float scale, float *dy,
                               cudaStream_t stream)
{
    LAUNCH(relu_grad, cuda_blocks(count, BLOCK), BLOCK, stream, count, y, scale, dy);
}
