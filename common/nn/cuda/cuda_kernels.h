/*
 * cuda_kernels.h - the kernels: C functions that launch them on a stream and return at once.
 *
 * All pointers are device memory. The layout is the CPU's: images are rows, columns, channels
 * (HWC), filters [out][ky][kx][in]. No kernel adds through atomics: sums are trees whose shape
 * follows from the sizes alone, so the same inputs give the same bits.
 */
#ifndef COMMON_NN_CUDA_CUDA_KERNELS_H
#define COMMON_NN_CUDA_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define noreturn // C only; the headers below use it
extern "C" {
#endif

#include "common/nn/device.h"

/* device_cuda.c: memory for one call, see cuda_state.h. */
void *cuda_scratch(const Device *device, size_t *used, size_t bytes);
/* cuda_feed.c: device memory; how many steps after the recorded one, 0 except in a replay. */
const int32_t *cuda_step_offset(const Device *device);

/* Dies, naming the kernel, if the last launch failed. */
void cuda_check_launch(const char *file, int line, const char *kernel);

/* Rows to gather from, of a data set or a staged batch: bytes, which `normalised`[256] maps to
 * floats, or floats; and for each row a 32-bit word, its label or target. */
typedef struct {
    const uint8_t *bytes; // [rows][features], or NULL
    const float *floats; // the same
    const float *normalised;
    const uint32_t *words;
} CudaRows;

/* inputs[i] = from row rows[i], words[i] likewise. */
void cuda_gather(int n, int features, CudaRows from, const int32_t *rows, float *inputs,
                 uint32_t *words, cudaStream_t stream);

/* to = from, in the type that amp names; count numbers. */
void cuda_round(size_t count, Amp amp, const float *from, void *to, cudaStream_t stream);

/* The windows under the filters, one per row: columns[image][y][x][ky][kx][in], in amp's type. */
void cuda_im2col(ConvShape shape, int images, Amp amp, const float *x, void *columns,
                 cudaStream_t stream);
/* x = for each pixel, the sum over all windows that contain it. */
void cuda_col2im(ConvShape shape, int images, Amp amp, const void *columns, float *x,
                 cudaStream_t stream);

/* y[rows][columns] += bias, then relu on request. */
void cuda_add_bias(size_t rows, int columns, bool relu, const float *bias, float *y,
                   cudaStream_t stream);
/* y = relu(largest of each 2 x 2 of z + bias), argmax = which; z is a convolution's product. */
void cuda_bias_relu_pool(ConvShape shape, int images, const float *z, const float *bias, float *y,
                         uint8_t *argmax, cudaStream_t stream);
/* The way back: dz, in amp's type, is dy at the unit that argmax names, and 0 elsewhere. */
void cuda_unpool(ConvShape shape, int images, Amp amp, const float *dy, const uint8_t *argmax,
                 void *dz, cudaStream_t stream);

/* A first convolution, of one channel under 3 x 3 filters, without a matrix of windows. Its
 * gradient adds to dweight and dbias, by way of partial[cuda_first_conv_parts(..)][out][9 + 1]. */
void cuda_first_conv(ConvShape shape, int n, const float *x, const float *weight, const float *bias,
                     float *y, cudaStream_t stream);
int cuda_first_conv_parts(ConvShape shape, int n);
void cuda_first_conv_grad(ConvShape shape, int n, const float *x, const float *y, float scale,
                          const float *dy, float *partial, float *dweight, float *dbias,
                          cudaStream_t stream);

/* sums[column] += the sum of the column, via partial[CUDA_SUM_PARTS][columns]. With y,
 * relu_grad is applied to dy first, in place. */
enum { CUDA_SUM_PARTS = 256 };
void cuda_sum_rows(size_t rows, int columns, const float *y, float scale, float *dy, float *partial,
                   float *sums, cudaStream_t stream);

/* Entries of the table that device.h describes. Gradients of the loss are multiplied by
 * device->loss_scale->scale unless that is NULL; then the optimizers decide from the gradients
 * whether to take the step, and set the scale of the next. */
void cuda_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy);
void cuda_dropout(Device *device, int n, int features, DropoutKey key, float *y);
void cuda_nll(Device *device, int n, int classes, const float *logits, const int32_t *labels,
              float *log_probs, float *stats);
void cuda_nll_grad(Device *device, int n, int classes, const float *log_probs,
                   const int32_t *labels, float *dlogits);
void cuda_mse(Device *device, int n, const float *y, const float *targets, float *stats);
void cuda_mse_grad(Device *device, int n, const float *y, const float *targets, float *dy);
enum { CUDA_OPTIM_PARTS = 256 }; // doubles of scratch memory that these may use
void cuda_clip_grads(Device *device, size_t count, float *grads, float max_norm);
void cuda_optim(Device *device, size_t count, float *params, const float *grads,
                const OptimRule *rule, OptimStep step);

#ifdef __cplusplus
}
#endif

#endif
