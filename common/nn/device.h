/* device.h - where the numbers live and who computes on them: this CPU, or one GPU. */
#ifndef COMMON_NN_DEVICE_H
#define COMMON_NN_DEVICE_H

#include <stddef.h>

#include "common/base/args.h"
#include "common/base/place.h"

typedef struct Device {
    const char *name; // "cpu" or "cuda"
    const char *label; // "CPU" or "GPU", as in "[GPU0] Epoch 3"
    Place place; // where its memory is
    int threads; // compute threads of a CPU
    int shards; // of the batch at work: gradients of row i are summed up in part i % shards, then
                // the parts as a tree (args_shards); 0: in any order. The model sets it.
    const struct DeviceOps *ops; // the kernels: device_cpu.c or device_cuda.cu
    void *state; // the device's own
} Device;

typedef enum { COPY_TO_DEVICE, COPY_TO_HOST, COPY_ON_DEVICE } CopyKind;

/* Opens the device args->device asks for; of several GPUs the local_rank-th, or the only one this
 * process sees. Local. Usage error if the machine or this build has no such device, and on a GPU if
 * args want the sums of a fixed order. */
void device_init(Device *device, const Args *args, int local_rank);
void device_free(Device *device);

/* How many ranks suit this machine: its GPUs, else 2. Touches no device, so one may fork after. */
int device_count(const Args *args);

/* Device memory, zeroed, aligned to at least 64 bytes. Dies when there is none. */
void *device_malloc(Device *device, size_t bytes);
void device_release(Device *device, void *memory);

/* Copies in the order of the device's work; to the host, only when done. */
void device_copy(Device *device, void *to, const void *from, size_t bytes, CopyKind kind);

/* Waits for all work queued so far. */
void device_synchronize(Device *device);

#endif
