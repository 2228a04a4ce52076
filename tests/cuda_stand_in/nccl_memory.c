/*
 * Device memory that NCCL allocates, and its registration. Memory must be registered as it was
 * allocated, once in a communicator, and neither may end before the registration does.
 * NCCL_STAND_IN_REGISTERED=FILE: when a registration ends, the number of calls so far, and of those
 * on registered memory, is appended to it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "nccl_comm.h"

enum { MAX_ALLOCATED = 1024 };

typedef struct {
    char *memory; // NULL if the entry is free
    size_t bytes;
    const struct ncclComm *comm; // communicator that has registered it (NULL if none)
    bool symmetric; // true if registered as a window of all ranks
    void *of_rank[WIRE_MAX_RANKS]; // all ranks' memory, while there is a device communicator
} Allocated;

static Allocated allocated[MAX_ALLOCATED];

static Allocated *find(const void *memory)
{
    for (Allocated *one = allocated; one < allocated + MAX_ALLOCATED; one++)
        if (one->memory != NULL && (const char *)memory >= one->memory &&
            (const char *)memory < one->memory + one->bytes)
            return one;
    return NULL;
}

bool comm_has_registered(const struct ncclComm *comm, const void *array, size_t bytes)
{
    const Allocated *one = find(array);
    return one != NULL && one->comm == comm &&
           (const char *)array + bytes <= one->memory + one->bytes;
}

size_t comm_place_in_window(const struct ncclComm *comm, const void *array)
{
    const Allocated *one = find(array);
    const bool is_in = one != NULL && one->comm == comm && one->symmetric;
    return is_in ? (size_t)((const char *)array - one->memory) + 1 : 0;
}

void **comm_next_window(const struct ncclComm *comm, void **memory)
{
    int i = 0;
    while (memory != NULL && allocated[i++].of_rank != memory)
        ;
    for (; i < MAX_ALLOCATED; i++)
        if (allocated[i].memory != NULL && allocated[i].comm == comm && allocated[i].symmetric) {
            allocated[i].of_rank[comm->rank] = allocated[i].memory;
            return allocated[i].of_rank;
        }
    return NULL;
}

void **comm_window_memory(ncclWindow_t window)
{
    return ((Allocated *)window)->of_rank;
}

void *comm_own_memory(ncclWindow_t window)
{
    return ((Allocated *)window)->memory;
}

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    if (cudaMalloc(memory, bytes) != cudaSuccess)
        return ncclUnhandledCudaError;
    LOCKED;
    for (Allocated *one = allocated; one < allocated + MAX_ALLOCATED; one++)
        if (one->memory == NULL) {
            *one = (Allocated){ .memory = *memory, .bytes = bytes };
            return ncclSuccess;
        }
    stand_in_fail("NCCL: more than %d arrays", MAX_ALLOCATED);
}

ncclResult_t ncclMemFree(void *memory)
{
    Allocated *one = find(memory);
    if (one == NULL || one->memory != memory)
        stand_in_fail("ncclMemFree: memory that ncclMemAlloc has not made");
    if (one->comm != NULL)
        stand_in_fail("ncclMemFree: memory that is still registered");
    one->memory = NULL;
    return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    IN_COMM(comm);
    Allocated *one = find(memory);
    if (one == NULL || one->memory != memory || one->bytes != bytes || one->comm != NULL)
        return ncclInvalidArgument;
    one->comm = comm;
    comm->registered++;
    *handle = one;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    IN_COMM(comm);
    Allocated *one = handle;
    if (one == NULL || one->comm != comm)
        return ncclInvalidArgument;
    one->comm = NULL;
    one->symmetric = false;
    comm->registered--;
    const char *name = getenv("NCCL_STAND_IN_REGISTERED");
    FILE *file = name != NULL ? fopen(name, "a") : NULL;
    if (file != NULL) {
        fprintf(file, "%ld %ld\n", stand_in_count.nccl_calls, stand_in_count.nccl_calls_registered);
        fclose(file);
    }
    return ncclSuccess;
}

/* Registers a window; all ranks must call it, with equal sizes. */
static void register_window(struct ncclComm *comm)
{
    size_t all[WIRE_MAX_RANKS];
    WireCall gather = { .kind = WIRE_ALL_GATHER,
                        .type = ncclUint8,
                        .count = sizeof comm->window_bytes,
                        .in = (const char *)&comm->window_bytes,
                        .out = (char *)all };
    if (comm->first != NULL || comm->working)
        stand_in_fail("NCCL: a window is registered with calls on their way");
    wire_carry_out(&comm->wire, &gather, 1);
    for (int rank = 0; rank < comm->num_ranks; rank++)
        if (all[rank] != comm->window_bytes)
            stand_in_fail("NCCL: a window of %zu bytes on rank %d and of %zu on rank %d",
                          comm->window_bytes, comm->rank, all[rank], rank);
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes,
                                    ncclWindow_t *window, int flags)
{
    IN_COMM(comm);
    Allocated *one = find(memory);
    if (one == NULL || one->memory != memory || bytes > one->bytes || one->comm != NULL ||
        (flags & ~NCCL_WIN_COLL_SYMMETRIC) != 0)
        return ncclInvalidArgument;
    comm->window_bytes = bytes;
    const ncclResult_t result = comm_request(comm, register_window);
    one->comm = comm;
    one->symmetric = (flags & NCCL_WIN_COLL_SYMMETRIC) != 0;
    comm->registered++;
    *window = (ncclWindow_t)one;
    return result;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    return ncclCommDeregister(comm, window);
}
