/* device.h - where the numbers lie and what computes on them: this CPU, or one GPU. */
#ifndef COMMON_NN_DEVICE_H
#define COMMON_NN_DEVICE_H

#include <stddef.h>

#include "common/base/args.h"
#include "common/base/memory.h"
#include "common/data/dataloader.h"
#include "common/nn/amp.h"

typedef struct Device {
    const char *name; // "plain", "cpu" or "cuda"
    const char *label; // "CPU" or "GPU", as in "[GPU0] Epoch 3"
    MemoryLocation place; // where its memory is
    int threads; // compute threads of the CPU
    int shards; // of the batch at work: gradients of row i are summed up in part i % shards, then
                // the parts as a tree (args_shards); 0: in any order. The model sets it.
    Amp amp; // see amp.h
    bool tf32; // products of float32 on tensor cores
    bool records; // --cuda-graph on
    bool replaying; // see device_begin_step
    LossScale *loss_scale; // device memory; NULL: gradients are not scaled
    const struct DeviceOps *ops; // the kernels: plain.c, extras/fast_cpu or cuda
    void *state; // the device's own
} Device;

typedef enum { COPY_TO_DEVICE, COPY_TO_HOST, COPY_ON_DEVICE } CopyKind;

/* Opens the device args->device asks for, in the precision of args->amp and tf32; of several GPUs
 * the local_rank-th (with tcp and mpi, where ranks may share, they wrap around), or the only one
 * this process sees. Local. Usage error if the machine or this build has no such device, and on a
 * GPU if args ask for a fixed order of sums. The struct must not be moved: its place points into
 * it. */
void device_init(Device *device, const Args *args, int local_rank);
void device_free(Device *device);

/* How many ranks suit this machine: its GPUs, else 2. Touches no device, so the caller may still
 * fork. */
int device_count(const Args *args);

/* Device memory, zeroed, aligned to at least 64 bytes. Dies when there is none. */
void *device_malloc(Device *device, size_t bytes);
void device_release(Device *device, void *memory);

/* Copies in the order of the device's work; a copy to the host returns when done. */
void device_copy(Device *device, void *to, const void *from, size_t bytes, CopyKind kind);

/* A training step, from the forward pass to the optimizer. With --cuda-graph a GPU runs the first
 * few steps with batches of one size eagerly, captures one, and from then on replays the whole
 * graph when a step with such a batch begins: until it ends, `replaying` is true, and calls that
 * would queue work on the device only count. `step`: optimizer steps taken before. */
void device_begin_step(Device *device, const Batch *batch, uint64_t step);
void device_end_step(Device *device);

/* Waits for all work queued so far. */
void device_synchronize(Device *device);

#endif
