/* Losses and their gradients. A batch has few numbers here: one thread, ordered sums in double. */
#include <math.h>

#include "common/nn/cpu_kernels.h"

static int largest(int classes, const float *logits)
{
    int best = 0;
    for (int c = 1; c < classes; c++)
        if (logits[c] > logits[best])
            best = c;
    return best;
}

void cpu_nll(Device *device, int n, int classes, const float *logits, const int32_t *labels,
             float *log_probs, float *stats)
{
    (void)device;
    double loss = 0;
    int correct = 0;
    for (int row = 0; row < n; row++, logits += classes, log_probs += classes) {
        const int guess = largest(classes, logits);
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

void cpu_nll_grad(Device *device, int n, int classes, const float *log_probs, const int32_t *labels,
                  float *dlogits)
{
    (void)device;
    for (int row = 0; row < n; row++)
        for (int c = 0; c < classes; c++) {
            const int i = row * classes + c;
            dlogits[i] = (expf(log_probs[i]) - (c == labels[row])) / n;
        }
}

void cpu_mse(Device *device, int n, const float *y, const float *targets, float *stats)
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

void cpu_mse_grad(Device *device, int n, const float *y, const float *targets, float *dy)
{
    (void)device;
    for (int i = 0; i < n; i++)
        dy[i] = 2 * (y[i] - targets[i]) / n;
}
