/*
 * Device memory that NCCL allocates, and its registration. Memory must be registered as it was
 * allocated, once in a communicator, and neither may end before the registration does.
 * NCCL_STAND_IN_REGISTERED=FILE: when a registration ends, the calls made so far, and those of them
 * on registered memory, are appended to it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "nccl_comm.h"

enum { MAX_ALLOCATED = 1024 };

typedef struct {
    char *memory; // NULL: the place is free
    size_t bytes;
    const struct ncclComm *comm; // that has registered it; NULL: none
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

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    if (cudaMalloc(memory, bytes) != cudaSuccess)
        return ncclUnhandledCudaError;
    LOCKED;
    for (Allocated *one = allocated; one < allocated + MAX_ALLOCATED; one++)
        if (one->memory == NULL) {
            *one = (Allocated){ *memory, bytes, NULL };
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
    comm->registered--;
    const char *name = getenv("NCCL_STAND_IN_REGISTERED");
    FILE *file = name != NULL ? fopen(name, "a") : NULL;
    if (file != NULL) {
        fprintf(file, "%ld %ld\n", stand_in_count.nccl_calls, stand_in_count.nccl_calls_registered);
        fclose(file);
    }
    return ncclSuccess;
}
