/* plain.h - shared by the devices of a CPU: how work is divided, scratch memory, small sums.
 *
 * Threads divide images, columns or weights, but never one sum. Sums over images are made over
 * CPU_CHUNKS parts of the batch whatever the number of threads, which therefore changes no bit of
 * the result. With shards, neither does the number of ranks: rows are independent in the forward
 * pass, and gradients are summed within each shard before the shards are summed. */
#ifndef COMMON_NN_PLAIN_H
#define COMMON_NN_PLAIN_H

#include "common/nn/device.h"

enum {
    CPU_MAX_SHARDS = 8,
    CPU_CHUNKS_PER_SHARD = 2, // so that two threads have work if there is one shard
    CPU_CHUNKS = CPU_MAX_SHARDS * CPU_CHUNKS_PER_SHARD
};

/* Returns the index where part `part` of `parts` begins, of n elements. */
static inline int cpu_share(int n, int part, int parts)
{
    return (int)((int64_t)n * part / parts);
}

/* Returns how many threads are worth waking for this many operations. */
static inline int cpu_threads(const Device *device, double operations)
{
    return operations < 1e5 ? 1 : device->threads;
}

static inline int cpu_min(int a, int b)
{
    return a < b ? a : b;
}

typedef struct {
    DeviceOps ops; // the plain kernels, some of which extras/fast_cpu replaces
    float *scratch; // one kernel's memory; the next may overwrite it
    size_t numel; // floats in scratch: the most that a kernel has asked for
} CpuState;

/* Gives the device a CpuState with the plain kernels. */
CpuState *cpu_init(Device *device);
float *cpu_scratch(Device *device, size_t numel); // allocates if none asked for more

/* sums[column] += the sum of the column, on the calling thread. */
void cpu_add_rows(int rows, int columns, const float *values, float *sums);

/* Adds up as a tree: part i of `parts`, a power of two, gets part i + parts / 2, and so on until
 * all are in part 0. Parts are `stride` apart. On the calling thread. */
void cpu_tree_sum(int parts, size_t numel, size_t stride, float *sums);

/* Adds convolutions and linear layers to the table (plain_layers.c). */
void plain_layers(DeviceOps *ops);
void plain_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy);

#endif
