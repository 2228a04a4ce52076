/* kernel_types.h - types that C and the GPU's kernels share: precision, steps, convolutions. */
#ifndef COMMON_NN_KERNEL_TYPES_H
#define COMMON_NN_KERNEL_TYPES_H

#include <stdint.h>

#include "common/base/divergence.h"
#include "common/nn/lr_schedule.h"

/* Mixed precision: the type of each kind of number (--amp off, bf16 or fp16).
 *
 *     float32 always    weights, gradients, optimizer states, activations, sums, biases, relu,
 *                       pooling, dropout, softmax, loss; products too small to benefit: the first
 *                       convolution (one channel, 9 weights a filter), linear layers of fewer than
 *                       32 outputs
 *     bf16 or fp16      the operands of all other matrix products: inputs, weights and output
 *                       gradients of convolutions and linear layers, rounded on input; and on
 *                       a GPU what the gradient of a convolution's input is summed from
 *
 * Products accumulate in float32. On a CPU, which has bf16 only, a convolution's backward pass is
 * float32, and so is its forward pass without pooling. torch.autocast also rounds small products,
 * and keeps activations in the short type, which saves memory.
 */
typedef enum { AMP_OFF, AMP_BF16, AMP_FP16 } Amp;

/* The dynamic loss scale of fp16 (torch.amp.GradScaler): small gradients would vanish in a type
 * whose smallest number is 6e-8, so the loss is multiplied by `scale`, and the optimizer divides. A
 * step whose gradients are not all finite is skipped and halves the scale; 2,000 good ones double
 * it. */
typedef struct {
    float scale;
    float unscale; // factor for this step's gradients; 0: skip the step
    int32_t good_steps; // since the scale last changed
    uint32_t skipped; // steps skipped so far; Adam does not count them
    int32_t skipped_in_a_row;
} LossScale;

/* What an optimizer needs to know of its step. */
typedef struct {
    uint64_t number; // counted from 1
    const float *loss; // device memory
    Divergence *divergence; // device memory, set by the pass over the weights; NULL: not recorded
    LrSchedule schedule; // of lr; all 0: constant
} OptimStep;

/* A convolution with a square kernel, stride 1, no padding: out = in - kernel + 1. */
typedef struct {
    int in_channels, in_size; // images of in_size x in_size
    int out_channels, kernel;
} ConvShape;

static inline int conv_out_size(ConvShape shape)
{
    return shape.in_size - shape.kernel + 1;
}

static inline int conv_filter_numel(ConvShape shape) // weights of one output channel
{
    return shape.kernel * shape.kernel * shape.in_channels;
}

#endif
