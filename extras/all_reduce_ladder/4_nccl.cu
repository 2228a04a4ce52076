/* NCCL, which finds the path between the GPUs by itself. */
#include <nccl.h>

#include "common/nn/cuda/cuda_launch.h"
#include "extras/all_reduce_ladder/pair_cuda.h"

static const char *open(Pair *pair)
{
    const size_t bytes = pair->numel * sizeof(float);
    ncclUniqueId id; // the communicator's id: rank 0 makes it and shares it with the others
    CUDA_CHECK(cudaMalloc((void **)&pair->data, bytes));
    if (pair->rank == 0)
        PAIR_CHECK(ncclGetUniqueId(&id));
    broadcast(pair->pg, &id, sizeof id, UINT8, 0);
    PAIR_CHECK(ncclCommInitRank(&pair->comm, 2, id, pair->rank));
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
    PAIR_CHECK(ncclCommDestroy(pair->comm));
    CUDA_CHECK(cudaFree(pair->data));
}

const PairRung rung_nccl = { "NCCL", open, run, close };
