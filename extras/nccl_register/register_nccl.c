/*
 * --nccl-register on: large arrays lie in memory that NCCL has allocated, and the first collective
 * on one of them registers it with the communicator. NCCL then knows how other GPUs, and the
 * network, reach this memory, so it can send from there and need not copy through buffers of its
 * own.
 *
 * A model is made after its group, so its arrays come from the allocator that is put into the
 * device's table here. Registering is local: ranks need not agree on when. An array is registered
 * once, in the first step, before --cuda-graph records one.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/nccl/nccl_group.h"
#include "common/nn/device.h"
#include "extras/group/group_extras.h"

#define LIBRARY "libnccl.so.2"
#define NEEDED_BY "--nccl-register on"

enum { LEAST_BYTES = 1 << 20, MAX_ARRAYS = 64 }; // NCCL allocates pieces of 2 MiB

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 19, 0) // the library may be newer than this header
ncclResult_t ncclMemAlloc(void **memory, size_t bytes);
ncclResult_t ncclMemFree(void *memory);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);
#endif

#define REGISTER_FUNCTIONS(FUNCTION) \
    FUNCTION(mem_alloc, ncclMemAlloc) \
    FUNCTION(mem_free, ncclMemFree) \
    FUNCTION(comm_register, ncclCommRegister) \
    FUNCTION(comm_deregister, ncclCommDeregister)

typedef struct {
    char *memory; // NULL if the slot is free
    size_t bytes;
    void *handle; // NULL if not registered
} Array;

static struct {
    struct {
        REGISTER_FUNCTIONS(LIBRARY_POINTER)
    } lib;
    const DeviceOps *usual; // the device's table before; NULL if the option is off
    DeviceOps ops;
    Array arrays[MAX_ARRAYS];
    Nccl *nccl; // the group's; NULL if there is none
    Observer observer;
} registered;

/* ---- the allocator ---- */

static void *allocate(Device *device, size_t bytes)
{
    for (Array *array = registered.arrays; array < registered.arrays + MAX_ARRAYS; array++)
        if (bytes >= LEAST_BYTES && array->memory == NULL) {
            void *memory = NULL;
            const ncclResult_t result = registered.lib.mem_alloc(&memory, bytes);
            CHECK(result == ncclSuccess,
                  "GPU %d: ncclMemAlloc of %.1f MB failed (error %d); take "
                  "a smaller --batch-size, or --nccl-register off",
                  device->place.index, 1e-6 * (double)bytes, (int)result);
            CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, (cudaStream_t)device->place.stream));
            *array = (Array){ .memory = memory, .bytes = bytes };
            return memory;
        }
    return registered.usual->malloc(device, bytes);
}

static void deregister(Array *array)
{
    if (array->handle != NULL && registered.nccl != NULL)
        NCCL_CHECK(registered.nccl, "ncclCommDeregister",
                   registered.lib.comm_deregister(registered.nccl->comm, array->handle));
    array->handle = NULL;
}

static void release(Device *device, void *memory)
{
    for (Array *array = registered.arrays; array < registered.arrays + MAX_ARRAYS; array++)
        if (memory != NULL && array->memory == memory) {
            CUDA_CHECK(cudaStreamSynchronize((cudaStream_t)device->place.stream));
            deregister(array);
            CHECK(registered.lib.mem_free(memory) == ncclSuccess, "ncclMemFree failed");
            *array = (Array){ 0 };
            return;
        }
    registered.usual->release(device, memory);
}

/* ---- the group ---- */

/* Registers our arrays with NCCL before the first collective on them begins. */
static void see(void *context, const Collective *collective, CollectiveState state)
{
    (void)context;
    if (state != COLLECTIVE_SCHEDULED || collective->pg->state != registered.nccl)
        return;
    const char *data = collective->out;
    for (Array *array = registered.arrays; array < registered.arrays + MAX_ARRAYS; array++)
        if (array->memory != NULL && array->handle == NULL && data >= array->memory &&
            data < array->memory + array->bytes) {
            NCCL_CHECK(registered.nccl, "ncclCommRegister",
                       registered.lib.comm_register(registered.nccl->comm, array->memory,
                                                    array->bytes, &array->handle));
            log_detail(LOG_DISTRIBUTED, "registered %.1f MB with NCCL, because of %s",
                       1e-6 * (double)array->bytes, collective_name(collective->kind));
        }
}

/* Ends the program before the ranks meet if the library lacks these functions. */
void register_check(const ProcessGroup *pg, const Args *args)
{
    if (!args->nccl_register)
        return;
    if (pg->backend != &backend_nccl)
        usage_error("--nccl-register on is for --backend nccl, and here it is %s",
                    pg->backend->name);
    registered.lib = (__typeof__(registered.lib)){ REGISTER_FUNCTIONS(LIBRARY_FIND) };
}

void register_formed(ProcessGroup *pg, const Args *args)
{
    if (!args->nccl_register || pg->backend != &backend_nccl) // shared GPUs communicate by tcp
        return;
    Device *device = (Device *)((const char *)pg->place.replaying - offsetof(Device, replaying));
    if (registered.usual == NULL) {
        registered.usual = device->ops;
        registered.ops = *device->ops;
        registered.ops.malloc = allocate;
        registered.ops.release = release;
    }
    device->ops = &registered.ops;
    registered.nccl = pg->state;
    registered.observer = (Observer){ .see = see };
    process_group_observe(pg, &registered.observer);
}

void register_leaving(ProcessGroup *pg)
{
    if (registered.nccl == NULL || pg->state != registered.nccl)
        return;
    CUDA_CHECK(cudaStreamSynchronize((cudaStream_t)pg->place.stream));
    CUDA_CHECK(cudaStreamSynchronize(registered.nccl->stream));
    for (Array *array = registered.arrays; array < registered.arrays + MAX_ARRAYS; array++)
        deregister(array);
    registered.nccl = NULL;
}
