/*
 * The optimizers, operation by operation as PyTorch does them (torch/optim, "single tensor"): a
 * thread for each number. With fp16 the gradients are scaled; unscale undoes that, and if it is 0
 * the step is skipped without asking the host: nothing is written.
 */
#include "common/nn/cuda/cuda_launch.h"

enum { BLOCK = CUDA_FINITE_PARTS, GROWTH_INTERVAL = 2000 };
enum { ADAM_BLOCKS = 1024 }; // as many as a large GPU runs at once

/* ---- the dynamic loss scale (torch.amp.GradScaler), without the host ----
 *
 * One pass looks for a gradient that is not finite, then one block decides. It checks the gradients
 * that the optimizer gets, the mean over all ranks. Those are bitwise the same on every rank, and
 * include any rank's overflow: so all ranks decide alike without communication. */

static __global__ void find_nonfinite(size_t count, const float *grads, int32_t *partial)
{
    __shared__ int32_t tree[BLOCK];
    int32_t found = 0;
    const size_t stride = (size_t)gridDim.x * BLOCK;
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < count; i += stride)
        found += !isfinite(grads[i]);
    found = block_sum<int32_t, BLOCK>(found > 0, tree, threadIdx.x);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = found;
}

static __global__ void decide(const int32_t *partial, LossScale *loss_scale)
{
    __shared__ int32_t tree[BLOCK];
    const int32_t found = block_sum<int32_t, BLOCK>(partial[threadIdx.x] > 0, tree, threadIdx.x);
    if (threadIdx.x > 0)
        return;
    LossScale next = *loss_scale;
    next.unscale = found > 0 ? 0 : 1 / next.scale; // of this step; `scale` is the next one's
    if (found > 0) {
        next.scale *= 0.5f;
        next.good_steps = 0;
        next.skipped++;
    } else if (++next.good_steps == GROWTH_INTERVAL) {
        next.scale = isfinite(next.scale * 2) ? next.scale * 2 : next.scale;
        next.good_steps = 0;
    }
    *loss_scale = next;
}

/* Before an optimizer step: decides on the device whether to take or skip it. */
static void judge(Device *device, size_t count, const float *grads)
{
    if (device->loss_scale == NULL)
        return;
    size_t used = 0;
    int32_t *partial = (int32_t *)cuda_scratch(device, &used, CUDA_FINITE_PARTS * sizeof *partial);
    LAUNCH(find_nonfinite, CUDA_FINITE_PARTS, BLOCK, stream_of(device), count, grads, partial);
    LAUNCH(decide, 1, BLOCK, stream_of(device), partial, device->loss_scale);
}

/* ---- optimizers ---- */

/* Factor of the gradients; 0: skip the step. */
static inline __device__ float unscale_of(const LossScale *loss_scale)
{
    return loss_scale != NULL ? loss_scale->unscale : 1;
}

static inline __device__ size_t my_index(void)
{
    return (size_t)blockIdx.x * BLOCK + threadIdx.x;
}

static __global__ void sgd(size_t count, float *params, const float *grads, float *momentum_buffer,
                           float lr, float momentum, float weight_decay,
                           const LossScale *loss_scale)
{
    const size_t i = my_index();
    const float unscale = unscale_of(loss_scale);
    if (i >= count || unscale == 0)
        return;
    float grad = grads[i] * unscale + weight_decay * params[i];
    if (momentum_buffer != NULL)
        grad = momentum_buffer[i] = momentum * momentum_buffer[i] + grad;
    params[i] -= lr * grad;
}

extern "C" void cuda_sgd(Device *device, size_t count, float *params, const float *grads,
                         float *momentum_buffer, float lr, float momentum, float weight_decay)
{
    judge(device, count, grads);
    LAUNCH(sgd, cuda_blocks(count, BLOCK), BLOCK, stream_of(device), count, params, grads,
           momentum_buffer, lr, momentum, weight_decay, device->loss_scale);
}

/* The bias correction of the learning rate is the same for all numbers: one thread of a block
 * computes it, in double, while the others wait; so there are few blocks, and each goes on to
 * further numbers. */
static __global__ void adam(size_t count, float *params, const float *grads, float *exp_avg,
                            float *exp_avg_sq, double lr, double weight_decay, bool decoupled,
                            uint64_t first_step, const int32_t *step_offset,
                            const LossScale *loss_scale)
{
    const double beta1 = 0.9, beta2 = 0.999;
    const float eps = 1e-8f;
    __shared__ float step_size, correction;
    if (threadIdx.x == 0) {
        const uint32_t skipped = loss_scale != NULL ? loss_scale->skipped : 0;
        const double step = (double)(first_step + *step_offset - skipped);
        step_size = (float)(lr / (1 - pow(beta1, step)));
        correction = (float)sqrt(1 - pow(beta2, step));
    }
    __syncthreads();

    const float unscale = unscale_of(loss_scale);
    if (unscale == 0)
        return;
    const float shrink = decoupled ? (float)(1 - lr * weight_decay) : 1;
    const float decay = decoupled ? 0 : (float)weight_decay;
    for (size_t i = my_index(); i < count; i += (size_t)gridDim.x * BLOCK) {
        const float param = params[i] * shrink, grad = grads[i] * unscale + decay * params[i];
        exp_avg[i] += (float)(1 - beta1) * (grad - exp_avg[i]);
        exp_avg_sq[i] = (float)beta2 * exp_avg_sq[i] + (float)(1 - beta2) * grad * grad;
        params[i] = param - step_size * exp_avg[i] / (sqrtf(exp_avg_sq[i]) / correction + eps);
    }
}

extern "C" void cuda_adam(Device *device, size_t count, float *params, const float *grads,
                          float *exp_avg, float *exp_avg_sq, double lr, double weight_decay,
                          bool decoupled, uint64_t step)
{
    judge(device, count, grads);
    unsigned blocks = cuda_blocks(count, BLOCK);
    if (blocks > ADAM_BLOCKS)
        blocks = ADAM_BLOCKS;
    LAUNCH(adam, blocks, BLOCK, stream_of(device), count, params, grads, exp_avg, exp_avg_sq, lr,
           weight_decay, decoupled, step, cuda_step_offset(device), device->loss_scale);
}

static __global__ void adadelta(size_t count, float *params, const float *grads, float *square_avg,
                                float *acc_delta, float lr, float weight_decay,
                                const LossScale *loss_scale)
{
    const float rho = 0.9f, rest = (float)(1 - 0.9), eps = 1e-6f;
    const size_t i = my_index();
    const float unscale = unscale_of(loss_scale);
    if (i >= count || unscale == 0)
        return;
    const float grad = grads[i] * unscale + weight_decay * params[i];
    square_avg[i] = rho * square_avg[i] + rest * grad * grad;
    const float delta = sqrtf(acc_delta[i] + eps) / sqrtf(square_avg[i] + eps) * grad;
    acc_delta[i] = rho * acc_delta[i] + rest * delta * delta;
    params[i] -= lr * delta;
}

extern "C" void cuda_adadelta(Device *device, size_t count, float *params, const float *grads,
                              float *square_avg, float *acc_delta, float lr, float weight_decay)
{
    judge(device, count, grads);
    LAUNCH(adadelta, cuda_blocks(count, BLOCK), BLOCK, stream_of(device), count, params, grads,
           square_avg, acc_delta, lr, weight_decay, device->loss_scale);
}
