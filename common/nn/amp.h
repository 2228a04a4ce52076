/*
 * amp.h - mixed precision: the type of each kind of number (--amp off, bf16 or fp16).
 *
 *     float32 always    weights, gradients, optimizer states, activations, sums, biases, relu,
 *                       pooling, dropout, softmax, loss; products too small to gain: the first
 *                       convolution (one channel, 9 weights a filter), linear layers of fewer than
 *                       32 outputs
 *     bf16 or fp16      the operands of all other matrix products: inputs, weights and output
 *                       gradients of convolutions and linear layers, rounded as they go in; and on
 *                       a GPU what the gradient of a convolution's input is summed from
 *
 * Products accumulate in float32. On a CPU, which has bf16 only, a convolution's backward pass is
 * float32, and so is its forward pass without pooling. torch.autocast also rounds small products,
 * and keeps activations in the short type, which saves memory.
 */
#ifndef COMMON_NN_AMP_H
#define COMMON_NN_AMP_H

#include <stdint.h>

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
} LossScale;

#endif
