/*
 * cuda_kernels.h - the kernels: C functions that launch them on a stream and return at once.
 *
 * All pointers are device memory. Images lie as on the CPU: rows, columns, channels (HWC), filters
 * as [out][ky][kx][in]. No kernel adds through atomics: sums are trees whose shape follows from the
 * sizes alone, so the same inputs give the same bits.
 */
#ifndef COMMON_NN_CUDA_CUDA_KERNELS_H
#define COMMON_NN_CUDA_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/nn/kernel_types.h"

#ifdef __cplusplus
extern "C" {
#endif

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
/* y = relu(largest of each 2 x 2 of z + bias), argmax = which: z[images][size][size][channels]. */
void cuda_bias_relu_pool(int images, int size, int channels, const float *z, const float *bias,
                         float *y, uint8_t *argmax, cudaStream_t stream);
/* The way back: dz, in amp's type, is dy at the unit that argmax names, and 0 elsewhere. */
void cuda_unpool(int images, int size, int channels, Amp amp, const float *dy,
                 const uint8_t *argmax, void *dz, cudaStream_t stream);

/* A first convolution, of one channel under 3 x 3 filters, without a matrix of windows. Its
 * gradient adds to dweight and dbias, by way of partial[cuda_first_conv_parts(..)][out][9 + 1]. */
void cuda_first_conv(ConvShape shape, int n, const float *x, const float *weight, const float *bias,
                     float *y, cudaStream_t stream);
int cuda_first_conv_parts(ConvShape shape, int n);
void cuda_first_conv_grad(ConvShape shape, int n, const float *x, const float *y, float scale,
                          const float *dy, float *partial, float *dweight, float *dbias,
                          cudaStream_t stream);

/* dy = y > 0 ? dy * scale : 0. */
void cuda_relu_grad(size_t count, const float *y, float scale, float *dy, cudaStream_t stream);

/* sums[column] += the sum of the column, via partial[CUDA_SUM_PARTS][columns]. With y,
 * cuda_relu_grad is applied to dy first, in place. */
enum { CUDA_SUM_PARTS = 256 };
void cuda_sum_rows(size_t rows, int columns, const float *y, float scale, float *dy, float *partial,
                   float *sums, cudaStream_t stream);

/* The mask that device.h describes, of step `step` + *step_offset (see CudaGraph). */
typedef struct {
    uint32_t seed[2], step;
    int layer, first_row, row_stride;
    float p;
} CudaDropout;
void cuda_dropout(int n, int features, CudaDropout key, const int32_t *step_offset, float *y,
                  cudaStream_t stream);

/* As device.h says. The gradients are multiplied by loss_scale->scale unless that is NULL. */
void cuda_nll(int n, int classes, const float *logits, const int32_t *labels, float *log_probs,
              float *stats, cudaStream_t stream);
void cuda_nll_grad(int n, int classes, const float *log_probs, const int32_t *labels,
                   const LossScale *loss_scale, float *dlogits, cudaStream_t stream);
void cuda_mse(int n, const float *y, const float *targets, float *stats, cudaStream_t stream);
void cuda_mse_grad(int n, const float *y, const float *targets, const LossScale *loss_scale,
                   float *dy, cudaStream_t stream);

/* Decides about a step by its gradients: sets unscale, and the scale of the next step. */
enum { CUDA_FINITE_PARTS = 256 };
void cuda_update_loss_scale(size_t count, const float *grads, int32_t *partial /* [PARTS] */,
                            LossScale *loss_scale, cudaStream_t stream);

/* Optimizers; without loss_scale (NULL) every step is taken and gradients are as they are. */
void cuda_sgd(size_t count, float *params, const float *grads, float *momentum_buffer, float lr,
              float momentum, float weight_decay, const LossScale *loss_scale, cudaStream_t stream);
typedef struct {
    double lr, weight_decay;
    bool decoupled;
    uint64_t step; // plus *step_offset, minus the steps skipped: the count of Adam
} CudaAdam;
void cuda_adam(size_t count, float *params, const float *grads, float *exp_avg, float *exp_avg_sq,
               CudaAdam adam, const int32_t *step_offset, const LossScale *loss_scale,
               cudaStream_t stream);
void cuda_adadelta(size_t count, float *params, const float *grads, float *square_avg,
                   float *acc_delta, float lr, float weight_decay, const LossScale *loss_scale,
                   cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
