/* The optimizers, operation by operation as PyTorch does them (torch/optim, "single tensor").
 * Elements are independent, so threads may divide them in any way. */
#include <math.h>

#include "common/nn/cpu_kernels.h"

void cpu_sgd(Device *device, size_t count, float *params, const float *grads,
             float *momentum_buffer, float lr, float momentum, float weight_decay)
{
#pragma omp parallel for simd num_threads(cpu_threads(device, count)) schedule(static)
    for (size_t i = 0; i < count; i++) {
        float grad = grads[i] + weight_decay * params[i];
        if (momentum_buffer != NULL)
            grad = momentum_buffer[i] = momentum * momentum_buffer[i] + grad;
        params[i] -= lr * grad;
    }
}

void cpu_adam(Device *device, size_t count, float *params, const float *grads, float *exp_avg,
              float *exp_avg_sq, double lr, double weight_decay, bool decoupled, uint64_t step)
{
    const double beta1 = 0.9, beta2 = 0.999;
    const float eps = 1e-8f;
    const float step_size = (float)(lr / (1 - pow(beta1, (double)step)));
    const float correction = (float)sqrt(1 - pow(beta2, (double)step));
    const float shrink = decoupled ? (float)(1 - lr * weight_decay) : 1;
    const float decay = decoupled ? 0 : (float)weight_decay;

#pragma omp parallel for simd num_threads(cpu_threads(device, count)) schedule(static)
    for (size_t i = 0; i < count; i++) {
        const float param = params[i] * shrink, grad = grads[i] + decay * params[i];
        exp_avg[i] += (float)(1 - beta1) * (grad - exp_avg[i]);
        exp_avg_sq[i] = (float)beta2 * exp_avg_sq[i] + (float)(1 - beta2) * grad * grad;
        params[i] = param - step_size * exp_avg[i] / (sqrtf(exp_avg_sq[i]) / correction + eps);
    }
}

void cpu_adadelta(Device *device, size_t count, float *params, const float *grads,
                  float *square_avg, float *acc_delta, float lr, float weight_decay)
{
    const float rho = 0.9f, rest = (float)(1 - 0.9), eps = 1e-6f;
#pragma omp parallel for simd num_threads(cpu_threads(device, count)) schedule(static)
    for (size_t i = 0; i < count; i++) {
        const float grad = grads[i] + weight_decay * params[i];
        square_avg[i] = rho * square_avg[i] + rest * grad * grad;
        const float delta = sqrtf(acc_delta[i] + eps) / sqrtf(square_avg[i] + eps) * grad;
        acc_delta[i] = rho * acc_delta[i] + rest * delta * delta;
        params[i] -= lr * delta;
    }
}
