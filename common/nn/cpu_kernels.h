/*
 * cpu_kernels.h - the CPU's kernels, for device_cpu.c's table, and what they share.
 *
 * An image lies as rows, columns, channels ("NHWC"), and so does each filter of a convolution, one
 * after the other: [out][ky][kx][in]. Then a line of the window under a filter is contiguous.
 *
 * Threads divide images, columns or weights, but never one sum. Sums over images are made over
 * CPU_CHUNKS parts of the batch, however many threads there are: so their number changes no bit.
 * With shards, nor does the number of ranks: rows are independent in the forward pass, and
 * gradients are summed within a shard before shards are.
 */
#ifndef COMMON_NN_CPU_KERNELS_H
#define COMMON_NN_CPU_KERNELS_H

#include "common/nn/device_ops.h"

enum { CPU_CHUNKS = 16, CPU_MAX_SHARDS = 8 };

/* Where part `part` of `parts` begins, of n elements. */
static inline int cpu_share(int n, int part, int parts)
{
    return (int)((int64_t)n * part / parts);
}

/* How many threads are worth waking for so many operations. */
static inline int cpu_threads(const Device *device, double operations)
{
    return operations < 1e5 ? 1 : device->threads;
}

static inline int cpu_min(int a, int b)
{
    return a < b ? a : b;
}

/* Scratch memory of kernels. conv_reserve allocates it, so that the training loop does not; the
 * next kernel may overwrite it. */
typedef struct {
    float *scratch;
    size_t numel;
    DeviceOps ops; // with --amp bf16: the table with some kernels replaced
} CpuState;

void cpu_reserve(Device *device, size_t numel);
float *cpu_scratch(const Device *device, size_t numel); // dies if less is reserved
size_t cpu_conv_scratch(ConvShape shape, int threads); // what forward needs
size_t cpu_conv_grad_scratch(ConvShape shape); // and what backward needs

/* sums[column] += the sum of the column: on the calling thread. */
void cpu_add_rows(int rows, int columns, const float *values, float *sums);

/* Adds up as a tree: part i of `parts`, a power of two, gets part i + parts / 2, and so on until
 * all are in part 0. Parts lie `stride` apart; on the calling thread. */
void cpu_tree_sum(int parts, size_t numel, size_t stride, float *sums);

/* Pools two rows of outputs into one; argmax says which of its four outputs each unit is: 0 and 1
 * above, 2 and 3 below, the first of equals, as in PyTorch. */
void cpu_pool_rows(int size, int channels, const float *rows, const float *bias, float *y,
                   uint8_t *argmax);

/* Convolutions of 3 x 3 in pairs of rows; see cpu_winograd.c. */
size_t cpu_winograd_scratch(ConvShape shape, int threads);
/* Once per pass: filters lie as [3][3][in][out]. */
void cpu_winograd_filters(ConvShape shape, const float *filters, float *scratch);
/* Two rows of outputs, without the bias, whose first window begins at x. Skips an odd last column,
 * which pooling ignores. */
void cpu_winograd_rows(ConvShape shape, int thread, const float *x, float *scratch, float *y);

/* The gradient of one image, zeros in dy skipped: adds to dweight and, unless it is NULL, to dx.
 * argmax is NULL where there was no pooling. See cpu_scatter.c. */
void cpu_scatter_grad(ConvShape shape, const float *x, const float *dy, const uint8_t *argmax,
                      const float *weight, float *dweight, float *dx);

/* The kernels, as device_ops.h describes them; cpu_relu_grad is for any thread. */
void cpu_conv_relu(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                   const float *bias, float *y);
void cpu_conv_relu_pool(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                        const float *bias, float *y, uint8_t *argmax);
void cpu_conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                   const uint8_t *argmax, const float *weight, float scale, float *dy,
                   float *dweight, float *dbias, float *dx);

void cpu_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                const float *weight, const float *bias, float *y);
void cpu_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy);
void cpu_linear_grad_params(Device *device, int n, int in, int out, const float *x, const float *dy,
                            float *dweight, float *dbias);
void cpu_linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                           const float *weight, float *dx);
void cpu_dropout(Device *device, int n, int features, DropoutKey key, float *y);

void cpu_nll(Device *device, int n, int classes, const float *logits, const int32_t *labels,
             float *log_probs, float *stats);
void cpu_nll_grad(Device *device, int n, int classes, const float *log_probs, const int32_t *labels,
                  float *dlogits);
void cpu_mse(Device *device, int n, const float *y, const float *targets, float *stats);
void cpu_mse_grad(Device *device, int n, const float *y, const float *targets, float *dy);

void cpu_sgd(Device *device, size_t count, float *params, const float *grads,
             float *momentum_buffer, float lr, float momentum, float weight_decay);
void cpu_adam(Device *device, size_t count, float *params, const float *grads, float *exp_avg,
              float *exp_avg_sq, double lr, double weight_decay, bool decoupled, uint64_t step);
void cpu_adadelta(Device *device, size_t count, float *params, const float *grads,
                  float *square_avg, float *acc_delta, float lr, float weight_decay);

#endif
