/* NCCL, which finds the path between the GPUs by itself. */
#include <nccl.h>

#include "common/nn/cuda/cuda_launch.h"
#include "extras/all_reduce_ladder/pair_cuda.h"

static void check(ncclResult_t result, const char *call)
{
    CHECK(result == ncclSuccess, "%s: %s", call, ncclGetErrorString(result));
}

static const char *open(Pair *pair)
{
    const size_t bytes = pair->numel * sizeof(float);
    ncclUniqueId id; // the communicator's id: rank 0 makes it and shares it with the others
    CUDA_CHECK(cudaMalloc((void **)&pair->data, bytes));
    if (pair->rank == 0)
        check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    broadcast(pair->pg, &id, sizeof id, UINT8, 0);
    check(ncclCommInitRank(&pair->comm, 2, id, pair->rank), "ncclCommInitRank");
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
    check(ncclCommDestroy(pair->comm), "ncclCommDestroy");
    CUDA_CHECK(cudaFree(pair->data));
}

const PairRung rung_nccl = { "NCCL", open, run, close };
