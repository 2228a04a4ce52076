/*
 * conv_types.h - the passes around cuDNN's products with --amp, where those are in 16 bits. In
 * float32 the passes of common/nn/cuda are used.
 */
#ifndef EXTRAS_CUDNN_CONV_TYPES_H
#define EXTRAS_CUDNN_CONV_TYPES_H

#include "common/nn/cuda/cuda_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cuda_bias_relu_pool of a z that is in 16 bits. */
void cuda_bias_relu_pool_short(ConvShape shape, int images, Amp amp, const void *z,
                               const float *bias, float *y, uint8_t *argmax, cudaStream_t stream);

/* to = or += from, which is in 16 bits; count numbers. */
void cuda_widen(size_t count, Amp amp, const void *from, bool add, float *to, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
