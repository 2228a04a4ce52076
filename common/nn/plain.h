/*
 * plain.h - shared by the devices of a CPU: how work is divided, scratch memory, small sums.
 *
 * Threads divide images, columns or weights, but never one sum. Sums over images are made over
 * CPU_CHUNKS parts of the batch whatever the number of threads, which therefore changes no bit of
 * the result. With shards, neither does the number of ranks: rows are independent in the forward
 * pass, and gradients are summed within each shard before the shards are summed.
 */
#ifndef COMMON_NN_PLAIN_H
#define COMMON_NN_PLAIN_H

#include "common/nn/device.h"

enum {
    CPU_MAX_SHARDS = 8,
    CPU_CHUNKS_PER_SHARD = 2, // so that two threads have work if there is one shard
    CPU_CHUNKS = CPU_MAX_SHARDS * CPU_CHUNKS_PER_SHARD
};

/* The index where part `part` of `parts` begins, of n elements. */
static inline int cpu_share(int n, int part, int parts)
{
    return (int)((int64_t)n * part / parts);
}

/* How many threads are worth waking for this many operations. */
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
    DeviceOps ops; // of a device that replaces some of the plain kernels (extras/fast_cpu)
} CpuState;

void cpu_reserve(Device *device, size_t numel);
float *cpu_scratch(const Device *device, size_t numel); // dies if less is reserved

/* sums[column] += the sum of the column, on the calling thread. */
void cpu_add_rows(int rows, int columns, const float *values, float *sums);

/* Adds up as a tree: part i of `parts`, a power of two, gets part i + parts / 2, and so on until
 * all are in part 0. Parts are `stride` apart. On the calling thread. */
void cpu_tree_sum(int parts, size_t numel, size_t stride, float *sums);

/* The kernels with sums over products, in plain_layers.c; device.h describes them. */
void plain_conv_reserve(Device *device, ConvShape shape);
void plain_conv_relu(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                     const float *bias, float *y, uint8_t *argmax);
void plain_conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                     const uint8_t *argmax, const float *weight, float scale, float *dy,
                     float *dweight, float *dbias, float *dx);
void plain_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                  const float *weight, const float *bias, float *y);
void plain_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy);
void plain_linear_grad_params(Device *device, int n, int in, int out, const float *x,
                              const float *dy, float *dweight, float *dbias);
void plain_linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                             const float *weight, float *dx);

#endif
