/* cuda_launch.h - what the kernels share: how they are started (LAUNCH), sums over a block, and
 * templates for float, bf16 and fp16, which C++ converts into each other. */
#ifndef COMMON_NN_CUDA_CUDA_LAUNCH_H
#define COMMON_NN_CUDA_CUDA_LAUNCH_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "common/nn/cuda/cuda_state.h"

/* A stand-in that runs kernels without a GPU defines its own LAUNCH first. */
#ifndef LAUNCH
#define LAUNCH(kernel, grid, block, stream, ...) \
    do { \
        kernel<<<grid, block, 0, stream>>>(__VA_ARGS__); \
        cuda_check_launch(__FILE__, __LINE__, #kernel); \
    } while (0)
#endif

static inline cudaStream_t stream_of(const Device *device)
{
    return (cudaStream_t)device->place.stream;
}

template <int BLOCK> static inline __device__ size_t my_index(void) // this thread's number
{
    return (size_t)blockIdx.x * BLOCK + threadIdx.x;
}

/* Returns the number of blocks of `block` threads for `count` elements, a thread each. */
static inline unsigned cuda_blocks(size_t count, unsigned block)
{
    return (unsigned)((count + block - 1) / block);
}

/* Returns the sum of `value` over the block's `SIZE` threads (a power of two), to all of them. In
 * the shared memory `tree`, halves are added to halves, in log2(SIZE) rounds. */
template <typename T, int SIZE> static inline __device__ T block_sum(T value, T *tree, int thread)
{
    __syncthreads(); // others may still read the previous sum
    tree[thread] = value;
    for (int half = SIZE / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half)
            tree[thread] += tree[thread + half];
    }
    __syncthreads();
    return tree[0];
}

/* Returns the gradient before relu and dropout: 0 where their output is not above 0. A nan passes
 * it on, as in PyTorch. */
static inline __device__ float relu_gradient(float y, float scale, float dy)
{
    return y <= 0 ? 0 : dy * scale;
}

/* Adjacent numbers that one instruction moves. */
template <typename T, int COUNT> struct alignas(sizeof(T) * COUNT) Pack {
    T value[COUNT];
};

template <typename T, int COUNT> static inline __device__ Pack<T, COUNT> load_pack(const T *from)
{
    return *(const Pack<T, COUNT> *)from;
}

template <typename T, int COUNT>
static inline __device__ void store_pack(T *to, Pack<T, COUNT> numbers)
{
    *(Pack<T, COUNT> *)to = numbers;
}

/* The shape of the CNN's second convolution, as constants. The kernels around its products divide
 * indices by sizes; dividing by a variable takes twenty instructions, by a constant three. They are
 * compiled for this shape and for a ConvShape, which is any other. */
struct SecondConv {
    static constexpr int in_channels = 32, in_size = 26, out_channels = 64, kernel = 3;
    static bool is(ConvShape shape)
    {
        return shape.in_channels == in_channels && shape.in_size == in_size &&
               shape.out_channels == out_channels && shape.kernel == kernel;
    }
};

/* Returns conv_out_size for either kind of shape. */
template <typename Shape> static inline __host__ __device__ int out_size(Shape shape)
{
    return shape.in_size - shape.kernel + 1;
}

/* Calls function<the type that amp names>(arguments). */
#define FOR_TYPE(amp, function, ...) \
    do { \
        if ((amp) == AMP_BF16) \
            function<__nv_bfloat16>(__VA_ARGS__); \
        else if ((amp) == AMP_FP16) \
            function<__half>(__VA_ARGS__); \
        else \
            function<float>(__VA_ARGS__); \
    } while (0)

#endif
