/* Losses and their gradients, in float: most GPUs are slow in double. Sums are in a fixed order.
 * The gradients are multiplied by the loss scale of fp16, the loss is not. */
#include "common/nn/cuda/cuda_launch.h"

enum { BLOCK = 128 };

static inline __device__ int largest(int classes, const float *logits)
{
    int best = 0;
    for (int c = 1; c < classes; c++)
        if (logits[c] > logits[best])
            best = c;
    return best;
}

/* Computes log_softmax of a row. The largest logit is subtracted, so that exp does not overflow. */
static inline __device__ void log_softmax(int classes, const float *logits, float maximum,
                                          float *log_probs)
{
    float sum = 0;
    for (int c = 0; c < classes; c++)
        sum += expf(logits[c] - maximum);
    const float log_sum = logf(sum);
    for (int c = 0; c < classes; c++)
        log_probs[c] = logits[c] - maximum - log_sum;
}

/* A thread has every gridDim.x * BLOCK-th row. Several blocks leave their sums in partial. */
static __global__ void nll(int n, int classes, const float *logits, const int32_t *labels,
                           float *log_probs, float *partial, float *stats)
{
    __shared__ float tree[BLOCK];
    float loss = 0, correct = 0;
    for (int row = (int)my_index<BLOCK>(); row < n; row += gridDim.x * BLOCK) {
        const float *logit = logits + (size_t)row * classes;
        float *log_prob = log_probs + (size_t)row * classes;
        const int guess = largest(classes, logit);
        log_softmax(classes, logit, logit[guess], log_prob);
        loss -= log_prob[labels[row]];
        correct += guess == labels[row];
    }
    loss = block_sum<float, BLOCK>(loss, tree, threadIdx.x);
    correct = block_sum<float, BLOCK>(correct, tree, threadIdx.x);
    if (threadIdx.x > 0)
        return;
    float *to = gridDim.x > 1 ? partial + 2 * blockIdx.x : stats;
    to[0] = loss / n;
    to[1] = correct;
    if (gridDim.x > 1 && blockIdx.x == 0)
        stats[0] = stats[1] = 0; // the sums are added to these
}

extern "C" void cuda_nll(Device *device, int n, int classes, const float *logits,
                         const int32_t *labels, float *log_probs, float *stats)
{
    const int wanted = (int)cuda_blocks(n, BLOCK), blocks = wanted < BLOCK ? wanted : BLOCK;
    size_t used = 0;
    float *partial = (float *)cuda_scratch(device, &used, 2 * sizeof(float) * blocks);
    LAUNCH(nll, blocks, BLOCK, stream_of(device), n, classes, logits, labels, log_probs, partial,
           stats);
    if (blocks > 1) // at most 128 rows, so cuda_sum_rows needs no `partial`
        cuda_sum_rows(blocks, 2, NULL, 1, partial, NULL, stats, stream_of(device));
}

static inline __device__ float scale_of(const LossScale *loss_scale)
{
    return loss_scale != NULL ? loss_scale->scale : 1;
}

static __global__ void nll_grad(int n, int classes, const float *log_probs, const int32_t *labels,
                                const LossScale *loss_scale, float *dlogits)
{
    const size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= (size_t)n * classes)
        return;
    const int is_label = (int)(i % classes) == labels[i / classes];
    dlogits[i] = (expf(log_probs[i]) - is_label) / n * scale_of(loss_scale);
}

extern "C" void cuda_nll_grad(Device *device, int n, int classes, const float *log_probs,
                              const int32_t *labels, float *dlogits)
{
    LAUNCH(nll_grad, cuda_blocks((size_t)n * classes, BLOCK), BLOCK, stream_of(device), n, classes,
           log_probs, labels, device->loss_scale, dlogits);
}

static __global__ void mse(int n, const float *y, const float *targets, float *stats)
{
    __shared__ double tree[BLOCK];
    double loss = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK) {
        const double error = (double)y[i] - targets[i];
        loss += error * error;
    }
    loss = block_sum<double, BLOCK>(loss, tree, threadIdx.x);
    if (threadIdx.x == 0) {
        stats[0] = (float)(loss / n);
        stats[1] = 0;
    }
}

extern "C" void cuda_mse(Device *device, int n, const float *y, const float *targets, float *stats)
{
    LAUNCH(mse, 1, BLOCK, stream_of(device), n, y, targets, stats);
}

static __global__ void mse_grad(int n, const float *y, const float *targets,
                                const LossScale *loss_scale, float *dy)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n)
        dy[i] = 2 * (y[i] - targets[i]) / n * scale_of(loss_scale);
}

extern "C" void cuda_mse_grad(Device *device, int n, const float *y, const float *targets,
                              float *dy)
{
    LAUNCH(mse_grad, cuda_blocks(n, BLOCK), BLOCK, stream_of(device), n, y, targets,
           device->loss_scale, dy);
}
