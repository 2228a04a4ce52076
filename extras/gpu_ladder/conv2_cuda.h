/*
 * conv2_cuda.h - the one convolution that every rung of the ladder computes, and how it is called.
 *
 * It is the trainer's conv2 without bias, relu and pooling: 64 filters of 3 x 3 pixels and 32
 * channels, over images of 26 x 26 pixels. Every rung treats it as a product of matrices,
 *
 *     y[window][filter] = sum over depth of windows[window][depth] * filters[filter][depth]
 *
 * where a window is what a filter covers at one place, 288 numbers in three lines that are
 * contiguous in the image. The filters lie in memory as this matrix. The windows do not, since they
 * overlap, so most pixels belong to nine of them.
 */
#ifndef EXTRAS_GPU_LADDER_CONV2_CUDA_H
#define EXTRAS_GPU_LADDER_CONV2_CUDA_H

#include <cublas_v2.h>

enum { CHANNELS = 32, IN_SIZE = 26, OUT_SIZE = 24, FILTERS = 64, KERNEL = 3 };
enum { LINE = KERNEL * CHANNELS, DEPTH = KERNEL * LINE }; // a window's line, and the whole window
enum { WINDOWS = OUT_SIZE * OUT_SIZE }; // windows per image

/* The arrays: device memory, dense, channels last; up to 4,096 images. */
typedef struct {
    int images;
    const float *x; // [images][IN_SIZE][IN_SIZE][CHANNELS]
    const float *weight; // [FILTERS][DEPTH]
    float *y; // [images * WINDOWS][FILTERS]
    float *columns; // [images * WINDOWS][DEPTH], for im2col only
    void *x16, *weight16, *columns16; // x, weight and columns in fp16, from conv2_prepare
    cublasHandle_t blas; // works on `stream`
    cudaStream_t stream;
} Conv2;

#ifdef __cplusplus
extern "C" {
#endif

/* The rungs. Each queues its work on the stream and returns. */
void conv2_naive(const Conv2 *conv);
void conv2_shared_tiles(const Conv2 *conv);
void conv2_im2col(const Conv2 *conv);
void conv2_register_tiles(const Conv2 *conv);
void conv2_tensor_cores(const Conv2 *conv);
void conv2_wide_loads(const Conv2 *conv);
void conv2_two_buffers(const Conv2 *conv);
void conv2_warp_tiles(const Conv2 *conv);
void conv2_ldmatrix(const Conv2 *conv);

/* What they are compared with: cuBLAS's product of the matrix of windows, which conv2_prepare has
 * written, in float32 and in fp16. */
void conv2_prepare(const Conv2 *conv);
void conv2_cublas(const Conv2 *conv);
void conv2_cublas16(const Conv2 *conv);

#ifdef __cplusplus
}

#include "common/nn/cuda/cuda_launch.h"

/* Returns where a window begins in x. Windows are counted row by row, image after image. */
static inline __device__ int window_begin(int window)
{
    const int column = window % OUT_SIZE, row = window / OUT_SIZE % OUT_SIZE;
    return ((window / WINDOWS * IN_SIZE + row) * IN_SIZE + column) * CHANNELS;
}

/* Returns how far behind its beginning a window's number `depth` lies. */
static inline __device__ int window_offset(int depth)
{
    return depth / LINE * IN_SIZE * CHANNELS + depth % LINE;
}
#endif

#endif
