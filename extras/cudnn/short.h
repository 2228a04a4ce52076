/*
 * short.h - the layers with their numbers in 16 bits: with --conv cudnn and --amp, what passes from
 * layer to layer, and its gradients, are in amp's type. Each number is rounded once, when it is
 * written; sums are in float32, and so are the inputs, the last layer's outputs, and the
 * parameters.
 */
#ifndef EXTRAS_CUDNN_SHORT_H
#define EXTRAS_CUDNN_SHORT_H

#include "common/nn/cuda/cuda_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The state of the layers that are not convolutions. */
typedef struct {
    const DeviceOps *inner; // the table without these layers
    const float *inputs, *last_dy; // the arrays in float32: see short_layers_cuda.c
} ShortLayers;

/* Replaces these layers' entries in the table; short_layers returns this device's `layers`. */
void short_layers_init(ShortLayers *layers, const DeviceOps *inner, DeviceOps *ops);
ShortLayers *short_layers(const Device *device);

/* The kernels; void arrays are in amp's type. */

/* The first convolution and its gradient, like cuda_first_conv and cuda_first_conv_grad. */
void cuda_short_first_conv(ConvShape shape, int n, Amp amp, const float *x, const float *weight,
                           const float *bias, void *y, cudaStream_t stream);
void cuda_short_first_conv_grad(ConvShape shape, int n, Amp amp, const float *x, const void *y,
                                float scale, const void *dy, float *partial, float *dweight,
                                float *dbias, cudaStream_t stream);

/* Like cuda_bias_relu_pool and cuda_unpool. */
void cuda_short_pool(ConvShape shape, int images, Amp amp, const void *z, const float *bias,
                     void *y, uint8_t *argmax, cudaStream_t stream);
void cuda_short_unpool(ConvShape shape, int images, Amp amp, const void *dy, const uint8_t *argmax,
                       void *dz, cudaStream_t stream);

/* Computes y = relu(z + bias), rounded. */
void cuda_short_bias_relu(size_t rows, int columns, Amp amp, const float *z, const float *bias,
                          void *y, cudaStream_t stream);
void cuda_short_relu_grad(size_t count, Amp amp, const void *y, float scale, void *dy,
                          cudaStream_t stream);
/* Adds the sum of each dy column to sums[column], via partial[CUDA_SUM_PARTS][columns]. If y is
 * given, relu_grad is applied to dy first, in place. */
void cuda_short_sum_rows(size_t rows, int columns, Amp amp, const void *y, float scale, void *dy,
                         float *partial, float *sums, cudaStream_t stream);
void cuda_short_dropout(int n, int features, Amp amp, DropoutKey key, const int32_t *step_offset,
                        void *y, cudaStream_t stream);
/* Computes to += from for count numbers. */
void cuda_short_add(size_t count, Amp amp, const void *from, float *to, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
