/* cpu_kernels.h - the fast kernels, for device_cpu.c's table; shared code is in nn/plain.h. */
#ifndef EXTRAS_FAST_CPU_CPU_KERNELS_H
#define EXTRAS_FAST_CPU_CPU_KERNELS_H

#include "common/nn/plain.h"

/* Pools two rows of outputs into one; argmax is each unit's index among its four outputs: 0 and 1
 * above, 2 and 3 below, the first of equals, as in PyTorch. */
void cpu_pool_rows(int size, int channels, const float *rows, const float *bias, float *y,
                   uint8_t *argmax);

/* Convolutions of 3 x 3 in pairs of rows; see cpu_winograd.c. */
bool cpu_winograd_fits(ConvShape shape);
size_t cpu_winograd_scratch(ConvShape shape, int threads);
/* Transforms the filters, once per pass; they lie as [3][3][in][out]. */
void cpu_winograd_filters(ConvShape shape, const float *filters, float *scratch);
/* Computes two rows of outputs, without the bias, whose first window begins at x. Skips an odd last
 * column, which pooling ignores. */
void cpu_winograd_rows(ConvShape shape, int thread, const float *x, float *scratch, float *y);

/* Computes the gradient of one image, skipping zeros in dy: adds to dweight and, unless it is NULL,
 * to dx. argmax is NULL without pooling. See cpu_scatter.c. */
void cpu_scatter_grad(ConvShape shape, const float *x, const float *dy, const uint8_t *argmax,
                      const float *weight, float *dweight, float *dx);

/* The kernels, as device.h describes them. */
void cpu_conv_relu(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                   const float *bias, float *y, uint8_t *argmax);
void cpu_conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                   const uint8_t *argmax, const float *weight, float scale, float *dy,
                   float *dweight, float *dbias, float *dx);

void cpu_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                const float *weight, const float *bias, float *y);
void cpu_linear_grad_params(Device *device, int n, int in, int out, const float *x, const float *dy,
                            float *dweight, float *dbias);
void cpu_linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                           const float *weight, float *dx);

#endif
