/*
 * kernel_types.h - what C and the GPU's kernels share: precision, the learning rate of a step,
 * random numbers for dropout, the shape of a convolution.
 */
#ifndef COMMON_NN_KERNEL_TYPES_H
#define COMMON_NN_KERNEL_TYPES_H

#include <math.h>
#include <stdint.h>

#include "common/base/divergence.h"

#ifdef __CUDACC__
#define KERNEL_INLINE static inline __host__ __device__
#else
#define KERNEL_INLINE static inline
#endif

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

/*
 * The learning rate of each step (--lr-schedule, --warmup-steps) depends only on the step's number:
 * a resumed run needs nothing else, and neither does a kernel of a recorded graph. In PyTorch's
 * words, with scheduler.step() after each optimizer step:
 *
 *     warmup = LinearLR(optimizer, start_factor=1 / (warmup_steps + 1), total_iters=warmup_steps)
 *     step   = StepLR(optimizer, step_size=steps_per_epoch, gamma=0.7), as PyTorch's MNIST example
 *     cosine = CosineAnnealingLR(optimizer, T_max=total_steps - warmup_steps)
 *     SequentialLR(optimizer, [warmup, step or cosine], milestones=[warmup_steps])
 */
typedef enum { LR_CONSTANT, LR_STEP, LR_COSINE } LrScheduleKind;

typedef struct {
    LrScheduleKind kind;
    uint64_t warmup_steps;
    uint64_t steps_per_epoch, total_steps; // of all --epochs, whatever --max-steps
} LrSchedule;

/* The factor of --lr in a step; steps are counted from 1. */
KERNEL_INLINE double lr_factor(const LrSchedule *schedule, uint64_t step)
{
    const uint64_t taken = step - 1, warmup = schedule->warmup_steps;
    if (taken < warmup)
        return (double)step / (double)(warmup + 1);
    if (schedule->kind == LR_STEP)
        return pow(0.7, (double)((taken - warmup) / schedule->steps_per_epoch));
    if (schedule->kind == LR_COSINE && taken >= schedule->total_steps)
        return 0;
    if (schedule->kind == LR_COSINE)
        return 0.5 + 0.5 * cos(3.14159265358979323846 * (double)(taken - warmup) /
                               (double)(schedule->total_steps - warmup));
    return 1;
}

/* What an optimizer needs to know of its step. */
typedef struct {
    uint64_t number; // counted from 1
    const float *loss; // device memory
    Divergence *divergence; // device memory, set by the pass over the weights; NULL: not recorded
    LrSchedule schedule; // of lr; all 0: constant
} OptimStep;

/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): 128 random
 * bits that depend on counter and key, and on nothing else, so any rank and any thread can compute
 * the n-th number without those before it. Inline, so that a loop over counters vectorises. */
KERNEL_INLINE void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t random[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u; // the golden ratio
        k1 += 0xBB67AE85u; // the square root of 3, less 1
    }
    random[0] = c0;
    random[1] = c1;
    random[2] = c2;
    random[3] = c3;
}

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
