/* NCCL, with data that both GPUs have registered at the same place of a window. */
#include <nccl.h>

#include "common/nn/cuda/cuda_launch.h"
#include "extras/all_reduce_ladder/pair_cuda.h"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 27, 0) // the library may be newer than this header
typedef struct ncclWindow_vidmem *ncclWindow_t;
#define NCCL_WIN_COLL_SYMMETRIC 1
#endif
extern "C" {
ncclResult_t __attribute__((weak)) // NULL in an older library
ncclCommWindowRegister(ncclComm_t, void *, size_t, ncclWindow_t *, int);
ncclResult_t __attribute__((weak)) ncclCommWindowDeregister(ncclComm_t, ncclWindow_t);
}

static void check(ncclResult_t result, const char *call)
{
    CHECK(result == ncclSuccess, "%s: %s", call, ncclGetErrorString(result));
}

static const char *open(Pair *pair)
{
    const size_t bytes = pair->numel * sizeof(float);
    ncclUniqueId id; // the communicator's id: rank 0 makes it and shares it with the others
    if (ncclCommWindowRegister == NULL)
        return "needs NCCL 2.27 or newer";
    check(ncclMemAlloc((void **)&pair->data, bytes), "ncclMemAlloc");
    if (pair->rank == 0)
        check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    broadcast(pair->pg, &id, sizeof id, UINT8, 0);
    check(ncclCommInitRank(&pair->comm, 2, id, pair->rank), "ncclCommInitRank");
    check(ncclCommWindowRegister(pair->comm, pair->data, bytes, &pair->window,
                                 NCCL_WIN_COLL_SYMMETRIC),
          "ncclCommWindowRegister");
    return NULL;
}

static void run(Pair *pair)
{
    check(ncclAllReduce(pair->data, pair->data, pair->numel, ncclFloat32, ncclSum, pair->comm,
                        pair->stream),
          "ncclAllReduce");
}

static void close(Pair *pair)
{
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    check(ncclCommWindowDeregister(pair->comm, pair->window), "ncclCommWindowDeregister");
    check(ncclCommDestroy(pair->comm), "ncclCommDestroy");
    check(ncclMemFree(pair->data), "ncclMemFree");
}

const PairRung rung_symmetric = { "NCCL, symmetric", open, run, close };
