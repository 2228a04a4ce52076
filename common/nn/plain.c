/* The CPU as a device, in plain loops: every operation of a training step is written as its formula
 * is, and only the compiler optimises it. This file has memory, the batch, dropout, losses and
 * optimizers; plain_layers.c has the layers; the table is at the end. All work is done when
 * a call returns, so nothing ever waits. Other devices are tested against this one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/nn/plain.h"

/* ---- memory ---- */

static void plain_free(Device *device)
{
    CpuState *state = device->state;
    free(state->scratch);
    free(state);
}

static void *plain_malloc(Device *device, size_t bytes)
{
    (void)device;
    return mem_calloc(bytes, 1);
}

static void plain_release(Device *device, void *memory)
{
    (void)device;
    free(memory);
}

static void plain_copy(Device *device, void *to, const void *from, size_t bytes, CopyKind kind)
{
    (void)device, (void)kind;
    memcpy(to, from, bytes);
}

float *cpu_scratch(Device *device, size_t numel)
{
    CpuState *state = device->state;
    if (numel > state->numel) {
        free(state->scratch);
        state->scratch = mem_calloc(numel, sizeof(float));
        state->numel = numel;
    }
    return state->scratch;
}

/* ---- the batch ---- */

static void plain_gather(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                         float *targets)
{
    const Dataset *dataset = batch->dataset;
    const size_t features = dataset->features;
    const int threads = cpu_threads(device, (double)batch->size * (double)features);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < batch->size; i++) {
        const size_t row = batch->index[i];
        float *input = inputs + i * features;
        if (dataset->floats != NULL)
            memcpy(input, dataset->floats + row * features, features * sizeof *input);
        else
            for (size_t j = 0; j < features; j++)
                input[j] = dataset->normalised[dataset->bytes[row * features + j]];
        if (dataset->labels != NULL)
            labels[i] = dataset->labels[row];
        else
            targets[i] = dataset->targets[row];
    }
}

static void plain_zero(Device *device, float *array, size_t count)
{
#pragma omp parallel for simd num_threads(cpu_threads(device, (double)count)) schedule(static)
    for (size_t i = 0; i < count; i++)
        array[i] = 0;
}

/* ---- dropout ----
 *
 * Without a generator's state: whether a unit is dropped is a function of seed, step, layer, the
 * row's place in the global batch and the unit's index, so neither threads nor ranks matter. One
 * call of Philox draws a byte for each of 16 units. */

enum { UNITS = 16 }; // units per counter
enum { COUNTERS = 16 }; // drawn together, so that the loop vectorises

static void dropout_row(int features, const DropoutKey *key, int place, float *y)
{
    const uint32_t seed[2] = { (uint32_t)key->seed, (uint32_t)(key->seed >> 32) };
    const int threshold = (int)(key->p * 256);
    const float scale = 1 / (1 - key->p);
    for (int first = 0; first < features; first += UNITS * COUNTERS) {
        uint32_t random[COUNTERS][4];
        for (int i = 0; i < COUNTERS; i++) {
            const uint32_t counter[4] = { first / UNITS + i, place, key->layer,
                                          (uint32_t)key->step };
            philox(counter, seed, random[i]);
        }
        const uint8_t *byte = (const uint8_t *)random;
        const int count = cpu_min(UNITS * COUNTERS, features - first);
        for (int i = 0; i < count; i++)
            y[first + i] = byte[i] >= threshold ? y[first + i] * scale : 0;
    }
}

static void plain_dropout(Device *device, int n, int features, DropoutKey key, float *y)
{
    const int threads = cpu_threads(device, (double)n * features);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int row = 0; row < n; row++)
        dropout_row(features, &key, key.first_row + row * key.row_stride,
                    y + (ptrdiff_t)row * features);
}

/* ---- losses and their gradients: few numbers, so one thread adds them, in double ---- */

static void plain_nll(Device *device, int n, int classes, const float *logits,
                      const int32_t *labels, float *log_probs, float *stats)
{
    (void)device;
    double loss = 0;
    int correct = 0;
    for (int row = 0; row < n; row++, logits += classes, log_probs += classes) {
        int guess = 0;
        for (int c = 1; c < classes; c++)
            guess = logits[c] > logits[guess] ? c : guess;
        double sum = 0; // minus the largest, so that exp does not overflow
        for (int c = 0; c < classes; c++)
            sum += exp(logits[c] - logits[guess]);
        const double log_sum = log(sum);
        for (int c = 0; c < classes; c++)
            log_probs[c] = (float)(logits[c] - logits[guess] - log_sum);
        loss -= log_probs[labels[row]];
        correct += guess == labels[row];
    }
    stats[0] = (float)(loss / n);
    stats[1] = (float)correct;
}

static void plain_nll_grad(Device *device, int n, int classes, const float *log_probs,
                           const int32_t *labels, float *dlogits)
{
    (void)device;
    for (int row = 0; row < n; row++)
        for (int c = 0; c < classes; c++) {
            const int i = row * classes + c;
            dlogits[i] = (expf(log_probs[i]) - (c == labels[row])) / (float)n;
        }
}

static void plain_mse(Device *device, int n, const float *y, const float *targets, float *stats)
{
    (void)device;
    double loss = 0;
    for (int i = 0; i < n; i++) {
        const double error = (double)y[i] - targets[i];
        loss += error * error;
    }
    stats[0] = (float)(loss / n);
    stats[1] = 0;
}

static void plain_mse_grad(Device *device, int n, const float *y, const float *targets, float *dy)
{
    (void)device;
    for (int i = 0; i < n; i++)
        dy[i] = 2 * (y[i] - targets[i]) / (float)n;
}

/* ---- clipping, as torch.nn.utils.clip_grad_norm_ ---- */

static void plain_clip_grads(Device *device, size_t count, float *grads, float max_norm)
{
    double square[CPU_CHUNKS], sum = 0; // a sum per chunk, so the threads' number changes no bit
#pragma omp parallel for num_threads(cpu_threads(device, (double)count)) schedule(static)
    for (int chunk = 0; chunk < CPU_CHUNKS; chunk++) {
        double squares = 0;
#pragma omp simd reduction(+ : squares)
        for (size_t i = count * chunk / CPU_CHUNKS; i < count * (chunk + 1) / CPU_CHUNKS; i++)
            squares += (double)grads[i] * grads[i];
        square[chunk] = squares;
    }
    for (int chunk = 0; chunk < CPU_CHUNKS; chunk++)
        sum += square[chunk];
    const float factor = max_norm / ((float)sqrt(sum) + 1e-6f);
    if (factor >= 1) // a nan is not, so it spreads
        return;
#pragma omp parallel for simd num_threads(cpu_threads(device, (double)count)) schedule(static)
    for (size_t i = 0; i < count; i++)
        grads[i] *= factor;
}

/* ---- optimizers, operation by operation as PyTorch's (torch/optim, "single tensor") ---- */

static int plain_sgd(int threads, size_t count, float *params, const float *grads,
                     const OptimRule *rule)
{
    const float rate = (float)rule->lr, decay = (float)rule->weight_decay;
    const float momentum = (float)rule->momentum;
    float *momentum_buffer = rule->state[0];
    int diverged = 0; // weights that are not finite
#pragma omp parallel for simd num_threads(threads) reduction(+ : diverged)
    for (size_t i = 0; i < count; i++) {
        float grad = grads[i] + decay * params[i];
        if (momentum_buffer != NULL)
            grad = momentum_buffer[i] = momentum * momentum_buffer[i] + grad;
        params[i] -= rate * grad;
        diverged += !isfinite(params[i]);
    }
    return diverged;
}

static int plain_adam(int threads, size_t count, float *params, const float *grads,
                      const OptimRule *rule, uint64_t step)
{
    const double beta1 = 0.9, beta2 = 0.999;
    const float eps = 1e-8f;
    const float step_size = (float)(rule->lr / (1 - pow(beta1, (double)step)));
    const float correction = (float)sqrt(1 - pow(beta2, (double)step));
    const bool decoupled = rule->kind == OPTIM_ADAMW;
    const float shrink = decoupled ? (float)(1 - rule->lr * rule->weight_decay) : 1;
    const float decay = decoupled ? 0 : (float)rule->weight_decay;
    float *exp_avg = rule->state[0], *exp_avg_sq = rule->state[1];
    int diverged = 0;
#pragma omp parallel for simd num_threads(threads) reduction(+ : diverged)
    for (size_t i = 0; i < count; i++) {
        const float param = params[i] * shrink, grad = grads[i] + decay * params[i];
        exp_avg[i] += (float)(1 - beta1) * (grad - exp_avg[i]);
        exp_avg_sq[i] = (float)beta2 * exp_avg_sq[i] + (float)(1 - beta2) * grad * grad;
        params[i] = param - step_size * exp_avg[i] / (sqrtf(exp_avg_sq[i]) / correction + eps);
        diverged += !isfinite(params[i]);
    }
    return diverged;
}

static int plain_adadelta(int threads, size_t count, float *params, const float *grads,
                          const OptimRule *rule)
{
    const float rho = 0.9f, rest = (float)(1 - 0.9), eps = 1e-6f;
    const float rate = (float)rule->lr, decay = (float)rule->weight_decay;
    float *square_avg = rule->state[0], *acc_delta = rule->state[1];
    int diverged = 0;
#pragma omp parallel for simd num_threads(threads) reduction(+ : diverged)
    for (size_t i = 0; i < count; i++) {
        const float grad = grads[i] + decay * params[i];
        square_avg[i] = rho * square_avg[i] + rest * grad * grad;
        const float delta = sqrtf(acc_delta[i] + eps) / sqrtf(square_avg[i] + eps) * grad;
        acc_delta[i] = rho * acc_delta[i] + rest * delta * delta;
        params[i] -= rate * delta;
        diverged += !isfinite(params[i]);
    }
    return diverged;
}

static void plain_optim(Device *device, size_t count, float *params, const float *grads,
                        const OptimRule *rule, OptimStep step)
{
    const int threads = cpu_threads(device, (double)count);
    OptimRule now = *rule;
    now.lr *= lr_factor(&step.schedule, step.number);
    const int diverged = rule->kind == OPTIM_SGD ? plain_sgd(threads, count, params, grads, &now)
                         : rule->kind == OPTIM_ADADELTA
                             ? plain_adadelta(threads, count, params, grads, &now)
                             : plain_adam(threads, count, params, grads, &now, step.number);
    Divergence *divergence = step.divergence;
    if (divergence != NULL && divergence->loss == 0 && !isfinite(*step.loss))
        divergence->loss = (uint32_t)step.number;
    if (divergence != NULL && divergence->weights == 0 && diverged > 0)
        divergence->weights = (uint32_t)step.number;
}

static const DeviceOps plain_ops = {
    .malloc = plain_malloc,
    .release = plain_release,
    .copy = plain_copy,
    .free = plain_free,
    .gather = plain_gather,
    .dropout = plain_dropout,
    .nll = plain_nll,
    .nll_grad = plain_nll_grad,
    .mse = plain_mse,
    .mse_grad = plain_mse_grad,
    .zero = plain_zero,
    .clip_grads = plain_clip_grads,
    .optim = plain_optim,
};

CpuState *cpu_init(Device *device)
{
    CpuState *state = device->state = mem_calloc(1, sizeof *state);
    state->ops = plain_ops;
    plain_layers(&state->ops);
    device->ops = &state->ops;
    return state;
}

void device_plain_init(Device *device)
{
    cpu_init(device);
    if (device->amp == AMP_BF16)
        plain_bf16_init(device);
}
