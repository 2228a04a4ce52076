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

static const char *open(Pair *pair)
{
    const size_t bytes = pair->numel * sizeof(float);
    ncclUniqueId id; // the communicator's id: rank 0 makes it and shares it with the others
    if (ncclCommWindowRegister == NULL)
        return "needs NCCL 2.27 or newer";
    PAIR_CHECK(ncclMemAlloc((void **)&pair->data, bytes));
    if (pair->rank == 0)
        PAIR_CHECK(ncclGetUniqueId(&id));
    broadcast(pair->pg, &id, sizeof id, UINT8, 0);
    PAIR_CHECK(ncclCommInitRank(&pair->comm, 2, id, pair->rank));
    PAIR_CHECK(ncclCommWindowRegister(pair->comm, pair->data, bytes, &pair->window,
                                      NCCL_WIN_COLL_SYMMETRIC));
    return NULL;
}

static void run(Pair *pair)
{
    PAIR_CHECK(ncclAllReduce(pair->data, pair->data, pair->numel, ncclFloat32, ncclSum, pair->comm,
                             pair->stream));
}

static void close(Pair *pair)
{
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    PAIR_CHECK(ncclCommWindowDeregister(pair->comm, pair->window));
    PAIR_CHECK(ncclCommDestroy(pair->comm));
    PAIR_CHECK(ncclMemFree(pair->data));
}

const PairRung rung_symmetric = { "NCCL, symmetric", open, run, close };
