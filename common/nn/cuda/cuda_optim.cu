/* The optimizers, operation by operation as PyTorch does them (torch/optim, "single tensor"), with
 * a thread for each number. With fp16 the gradients are scaled, and unscale undoes that. If unscale
 * is 0, the step is skipped and nothing is written, without asking the host. */
#include "common/nn/cuda/cuda_launch.h"

enum { BLOCK = CUDA_OPTIM_PARTS, GROWTH_INTERVAL = 2000, MAX_SKIPPED = 50 };

/* A step on the device. */
typedef struct {
    OptimStep step;
    const int32_t *offset; // number of the step minus step.number (cuda_step_offset)
    LossScale *loss_scale; // NULL if every step is taken, and gradients are as they are
} CudaStep;

static inline __device__ uint64_t number_of(CudaStep step)
{
    return step.step.number + *step.offset;
}

/* Notes the step as the first with a weight that is not finite, unless there was one before. */
static inline __device__ void note_weights(CudaStep step)
{
    if (step.step.divergence != NULL)
        atomicCAS(&step.step.divergence->weights, 0u, (uint32_t)number_of(step));
}

static inline __device__ void note_loss(CudaStep step)
{
    if (step.step.divergence != NULL && !isfinite(*step.step.loss))
        atomicCAS(&step.step.divergence->loss, 0u, (uint32_t)number_of(step));
}

/* ---- the dynamic loss scale (torch.amp.GradScaler), without the host ----
 *
 * One pass looks for a gradient that is not finite, then one block decides. It checks the gradients
 * that the optimizer gets, the mean over all ranks. Those are bitwise the same on every rank, and
 * include any rank's overflow, so all ranks decide alike without communication. */

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

static __global__ void decide(const int32_t *partial, CudaStep step)
{
    __shared__ int32_t tree[BLOCK];
    const int32_t found = block_sum<int32_t, BLOCK>(partial[threadIdx.x] > 0, tree, threadIdx.x);
    if (threadIdx.x > 0)
        return;
    LossScale next = *step.loss_scale;
    next.unscale = found > 0 ? 0 : 1 / next.scale; // of this step; `scale` is the next one's
    if (found > 0) {
        next.scale *= 0.5f;
        next.good_steps = 0;
        next.skipped++;
        if (++next.skipped_in_a_row == MAX_SKIPPED) {
            note_loss(step);
            note_weights(step);
        }
    } else if (++next.good_steps == GROWTH_INTERVAL) {
        next.scale = isfinite(next.scale * 2) ? next.scale * 2 : next.scale;
        next.good_steps = 0;
    }
    if (found == 0)
        next.skipped_in_a_row = 0;
    *step.loss_scale = next;
}

/* Decides on the device, before an optimizer step, whether to take or skip it. */
static CudaStep judge(Device *device, size_t count, const float *grads, OptimStep host_step)
{
    const CudaStep step = { host_step, cuda_step_offset(device), device->loss_scale };
    if (device->loss_scale == NULL)
        return step;
    size_t used = 0;
    int32_t *partial = (int32_t *)cuda_scratch(device, &used, CUDA_OPTIM_PARTS * sizeof *partial);
    LAUNCH(find_nonfinite, CUDA_OPTIM_PARTS, BLOCK, stream_of(device), count, grads, partial);
    LAUNCH(decide, 1, BLOCK, stream_of(device), partial, step);
    return step;
}

/* ---- clipping, as torch.nn.utils.clip_grad_norm_: the factor stays on the device ---- */

static __global__ void sum_squares(size_t count, const float *grads, double *partial)
{
    __shared__ double tree[BLOCK];
    double sum = 0;
    const size_t stride = (size_t)gridDim.x * BLOCK;
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < count; i += stride)
        sum += (double)grads[i] * grads[i];
    sum = block_sum<double, BLOCK>(sum, tree, threadIdx.x);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

/* Sets partial[0] to the factor of all gradients. A nan is not at least 1, so it spreads. */
static __global__ void clip_factor(double *partial, float max_norm, const LossScale *loss_scale)
{
    __shared__ double tree[BLOCK];
    const double sum = block_sum<double, BLOCK>(partial[threadIdx.x], tree, threadIdx.x);
    if (threadIdx.x > 0)
        return;
    const double scale = loss_scale != NULL ? loss_scale->scale : 1;
    const float factor = max_norm / ((float)(sqrt(sum) / scale) + 1e-6f);
    partial[0] = factor >= 1 ? 1 : factor;
}

static __global__ void scale_grads(size_t count, float *grads, const double *factor)
{
    const size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < count)
        grads[i] *= (float)*factor;
}

extern "C" void cuda_clip_grads(Device *device, size_t count, float *grads, float max_norm)
{
    size_t used = 0;
    double *partial = (double *)cuda_scratch(device, &used, CUDA_OPTIM_PARTS * sizeof *partial);
    LAUNCH(sum_squares, CUDA_OPTIM_PARTS, BLOCK, stream_of(device), count, grads, partial);
    LAUNCH(clip_factor, 1, BLOCK, stream_of(device), partial, max_norm, device->loss_scale);
    LAUNCH(scale_grads, cuda_blocks(count, BLOCK), BLOCK, stream_of(device), count, grads, partial);
}

/* ---- the factors of a step, which are the same for all numbers ----
 *
 * They take hundreds of instructions in double, so the host computes them, but not with a loss
 * scale, when it does not know which steps were skipped, nor in a graph, which repeats recorded
 * numbers. There one thread computes them; in a graph beside the forward pass. */

typedef struct {
    float rate, step_size, correction, shrink; // the learning rate; the others are Adam's
} Factors;

static inline __host__ __device__ Factors factors_of(OptimRule rule, const LrSchedule *schedule,
                                                     uint64_t number, uint32_t skipped)
{
    const double rate = rule.lr * lr_factor(schedule, number), taken = (double)(number - skipped);
    Factors factors = { (float)rate, 0, 0, 1 };
    if (rule.kind == OPTIM_ADAM || rule.kind == OPTIM_ADAMW) {
        factors.step_size = (float)(rate / (1 - pow(0.9, taken)));
        factors.correction = (float)sqrt(1 - pow(0.999, taken));
    }
    if (rule.kind == OPTIM_ADAMW)
        factors.shrink = (float)(1 - rate * rule.weight_decay);
    return factors;
}

static __global__ void write_factors(OptimRule rule, CudaStep step, Factors *factors)
{
    const uint32_t skipped = step.loss_scale != NULL ? step.loss_scale->skipped : 0;
    *factors = factors_of(rule, &step.step.schedule, number_of(step), skipped);
}

/* Returns where the factors of this step will be, or NULL if the host knows them. */
static const Factors *factors_on_device(Device *device, const OptimRule *rule, CudaStep step)
{
    const CudaState *state = cuda_state(device);
    const LrSchedule *schedule = &step.step.schedule;
    const bool captured = cuda_is_captured(state->stream), scales = step.loss_scale != NULL;
    const bool is_adam = rule->kind == OPTIM_ADAM || rule->kind == OPTIM_ADAMW;
    const bool constant = schedule->kind == LR_CONSTANT && schedule->warmup_steps == 0;
    if (is_adam ? !captured && !scales : !captured || constant)
        return NULL;
    const bool aside = captured && !scales;
    if (aside)
        CUDA_CHECK(cudaStreamWaitEvent(state->aside, state->fork, 0));
    Factors *factors = (Factors *)state->factors;
    LAUNCH(write_factors, 1, 1, aside ? state->aside : state->stream, *rule, step, factors);
    if (aside) {
        CUDA_CHECK(cudaEventRecord(state->fork, state->aside));
        CUDA_CHECK(cudaStreamWaitEvent(state->stream, state->fork, 0));
    }
    return factors;
}

/* ---- optimizers ---- */

/* Returns the factor of the gradients, or 0 to skip the step. */
static inline __device__ float unscale_of(CudaStep step)
{
    return step.loss_scale != NULL ? step.loss_scale->unscale : 1;
}

/* Notes numbers that are not finite: weight i after the step and, by the thread of the first, the
 * loss. */
static inline __device__ void check(size_t i, float param, CudaStep step)
{
    if (i == 0)
        note_loss(step);
    if (!isfinite(param))
        note_weights(step);
}

static __global__ void sgd(size_t count, float *params, const float *grads, float *momentum_buffer,
                           Factors factors, const Factors *on_device, float momentum,
                           float weight_decay, CudaStep step)
{
    const size_t i = my_index<BLOCK>();
    const float unscale = unscale_of(step);
    if (i >= count || unscale == 0)
        return;
    float grad = grads[i] * unscale + weight_decay * params[i];
    if (momentum_buffer != NULL)
        grad = momentum_buffer[i] = momentum * momentum_buffer[i] + grad;
    params[i] -= (on_device != NULL ? on_device->rate : factors.rate) * grad;
    check(i, params[i], step);
}

static __global__ void adam(size_t count, float *params, const float *grads, float *exp_avg,
                            float *exp_avg_sq, Factors factors, const Factors *on_device,
                            float decay, CudaStep step)
{
    const double beta1 = 0.9, beta2 = 0.999;
    const float eps = 1e-8f;
    const size_t i = my_index<BLOCK>();
    const float unscale = unscale_of(step);
    if (i >= count || unscale == 0)
        return;
    if (on_device != NULL)
        factors = *on_device;
    const float param = params[i] * factors.shrink;
    const float grad = grads[i] * unscale + decay * params[i];
    exp_avg[i] += (float)(1 - beta1) * (grad - exp_avg[i]);
    exp_avg_sq[i] = (float)beta2 * exp_avg_sq[i] + (float)(1 - beta2) * grad * grad;
    params[i] = param - factors.step_size * exp_avg[i] /
                            (sqrtf(exp_avg_sq[i]) / factors.correction + eps);
    check(i, params[i], step);
}

static __global__ void adadelta(size_t count, float *params, const float *grads, float *square_avg,
                                float *acc_delta, Factors factors, const Factors *on_device,
                                float weight_decay, CudaStep step)
{
    const float rho = 0.9f, rest = (float)(1 - 0.9), eps = 1e-6f;
    const size_t i = my_index<BLOCK>();
    const float unscale = unscale_of(step);
    if (i >= count || unscale == 0)
        return;
    const float grad = grads[i] * unscale + weight_decay * params[i];
    square_avg[i] = rho * square_avg[i] + rest * grad * grad;
    const float delta = sqrtf(acc_delta[i] + eps) / sqrtf(square_avg[i] + eps) * grad;
    acc_delta[i] = rho * acc_delta[i] + rest * delta * delta;
    params[i] -= (on_device != NULL ? on_device->rate : factors.rate) * delta;
    check(i, params[i], step);
}

extern "C" void cuda_optim(Device *device, size_t count, float *params, const float *grads,
                           const OptimRule *rule, OptimStep host_step)
{
    const CudaStep step = judge(device, count, grads, host_step);
    const Factors factors = factors_of(*rule, &host_step.schedule, host_step.number, 0);
    const Factors *on_device = factors_on_device(device, rule, step);
    const cudaStream_t stream = stream_of(device);
    const unsigned blocks = cuda_blocks(count, BLOCK);
    const float decay = (float)rule->weight_decay;
    float *first = rule->state[0], *second = rule->state[1];
    if (rule->kind == OPTIM_SGD)
        LAUNCH(sgd, blocks, BLOCK, stream, count, params, grads, first, factors, on_device,
               (float)rule->momentum, decay, step);
    else if (rule->kind == OPTIM_ADADELTA)
        LAUNCH(adadelta, blocks, BLOCK, stream, count, params, grads, first, second, factors,
               on_device, decay, step);
    else
        LAUNCH(adam, blocks, BLOCK, stream, count, params, grads, first, second, factors, on_device,
               rule->kind == OPTIM_ADAMW ? 0 : decay, step);
}
