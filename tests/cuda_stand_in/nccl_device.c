/*
 * NCCL's device API: kernels reach the memory of all ranks that is in a symmetric window, and meet
 * at barriers. A communicator has one device communicator at a time, made after its windows.
 */
#include <string.h>

#include "include/nccl_device.h"
#include "nccl_comm.h"

/* Exchanges with all ranks. */
static void exchange(struct ncclComm *comm, const void *own, void *all, size_t bytes)
{
    WireCall gather = {
        .kind = WIRE_ALL_GATHER, .type = ncclUint8, .count = bytes, .in = own, .out = all
    };
    wire_carry_out(&comm->wire, &gather, 1);
}

/* Opens the other ranks' memory. Collective. */
static ncclResult_t open_all(struct ncclComm *comm, void *own, void **all)
{
    cudaIpcMemHandle_t handle, handles[WIRE_MAX_RANKS];
    if (cudaIpcGetMemHandle(&handle, own) != cudaSuccess)
        return ncclUnhandledCudaError;
    exchange(comm, &handle, handles, sizeof handle);
    for (int rank = 0; rank < comm->num_ranks; rank++)
        if (rank == comm->rank)
            all[rank] = own;
        else if (cudaIpcOpenMemHandle(&all[rank], handles[rank], cudaIpcMemLazyEnablePeerAccess) !=
                 cudaSuccess)
            return ncclUnhandledCudaError;
    return ncclSuccess;
}

static void close_all(const struct ncclComm *comm, void *const *all)
{
    for (int rank = 0; rank < comm->num_ranks; rank++)
        if (rank != comm->rank)
            cudaIpcCloseMemHandle(all[rank]);
}

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t *requirements,
                               ncclDevComm_t *device)
{
    IN_COMM(comm);
    if (!comm->blocking || comm->first != NULL || comm->working)
        stand_in_fail("ncclDevCommCreate: only of a blocking communicator without calls");
    const size_t count = (size_t)requirements->lsaBarrierCount;
    *device = (ncclDevComm_t){ .rank = comm->rank, .num_ranks = comm->num_ranks };
    void *flags, *all[WIRE_MAX_RANKS], **memory = NULL;
    const size_t bytes = count * (size_t)comm->num_ranks * sizeof(unsigned);
    if (cudaMalloc(&flags, bytes) != cudaSuccess || cudaMemset(flags, 0, bytes) != cudaSuccess ||
        cudaMalloc((void **)&device->turns, count * sizeof(unsigned)) != cudaSuccess ||
        cudaMemset(device->turns, 0, count * sizeof(unsigned)) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess)
        return ncclUnhandledCudaError;
    ncclResult_t result = open_all(comm, flags, all);
    for (int rank = 0; rank < comm->num_ranks; rank++)
        device->flags[rank] = all[rank];
    while (result == ncclSuccess && (memory = comm_next_window(comm, memory)) != NULL)
        result = open_all(comm, memory[comm->rank], memory);
    return result;
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t *device)
{
    IN_COMM(comm);
    void *all[WIRE_MAX_RANKS], **memory = NULL;
    for (int rank = 0; rank < comm->num_ranks; rank++)
        all[rank] = device->flags[rank];
    close_all(comm, all);
    while ((memory = comm_next_window(comm, memory)) != NULL)
        close_all(comm, memory);
    char one = 0, each[WIRE_MAX_RANKS];
    exchange(comm, &one, each, 1); // all ranks have closed what is freed now
    return cudaFree(all[comm->rank]) == cudaSuccess && cudaFree(device->turns) == cudaSuccess
               ? ncclSuccess
               : ncclUnhandledCudaError;
}

void *ncclGetLsaPointer(ncclWindow_t window, size_t offset, int rank)
{
    if (rank < 0 || rank >= WIRE_MAX_RANKS)
        stand_in_fail("ncclGetLsaPointer: there is no rank %d", rank);
    char *memory = comm_window_memory(window)[rank];
    if (memory == NULL)
        stand_in_fail("ncclGetLsaPointer: a window without a device communicator");
    return memory + offset;
}

void *ncclGetLocalPointer(ncclWindow_t window, size_t offset)
{
    return (char *)comm_own_memory(window) + offset;
}
