/* Each GPU copies the other's data directly from its memory, through CUDA IPC, and adds it. */
#include "common/nn/cuda/cuda_launch.h"
#include "extras/all_reduce_ladder/pair_cuda.h"

enum { BLOCK = 256 };

static __global__ void add(float *data, const float *other, size_t numel)
{
    const size_t i = my_index<BLOCK>();
    if (i < numel)
        data[i] += other[i];
}

static const char *open(Pair *pair)
{
    const size_t bytes = pair->numel * sizeof(float);
    CUDA_CHECK(cudaMalloc((void **)&pair->data, bytes));
    CUDA_CHECK(cudaMalloc((void **)&pair->scratch, bytes));
    // An address means nothing in another process. A handle does: there it becomes an address.
    cudaIpcMemHandle_t mine, handles[2];
    CUDA_CHECK(cudaIpcGetMemHandle(&mine, pair->data));
    all_gather(pair->pg, &mine, handles, sizeof mine, UINT8);
    CUDA_CHECK(cudaIpcOpenMemHandle((void **)&pair->peer, handles[1 - pair->rank],
                                    cudaIpcMemLazyEnablePeerAccess));
    return NULL;
}

static void run(Pair *pair)
{
    const size_t bytes = pair->numel * sizeof(float);
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    barrier(pair->pg); // the other GPU's data is ready
    CUDA_CHECK(cudaMemcpyAsync(pair->scratch, pair->peer, bytes, cudaMemcpyDefault, pair->stream));
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    barrier(pair->pg); // the other GPU has copied, too
    LAUNCH(add, cuda_blocks(pair->numel, BLOCK), BLOCK, pair->stream, pair->data, pair->scratch,
           pair->numel);
}

static void close(Pair *pair)
{
    CUDA_CHECK(cudaIpcCloseMemHandle(pair->peer));
    barrier(pair->pg); // freeing memory that the other process has open would break it
    CUDA_CHECK(cudaFree(pair->scratch));
    CUDA_CHECK(cudaFree(pair->data));
}

const PairRung rung_peer_copy = { "peer copy", open, run, close };
