/* Each GPU copies its data to the host, and adds the other's data that it finds there. */
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
    // Pinned, or the driver would copy all of it once more, into pinned memory of its own.
    for (int rank = 0; rank < 2; rank++)
        CUDA_CHECK(cudaHostRegister(pair->host[rank], bytes, cudaHostRegisterPortable));
    return NULL;
}

static void run(Pair *pair)
{
    const size_t bytes = pair->numel * sizeof(float);
    CUDA_CHECK(cudaMemcpyAsync(pair->host[pair->rank], pair->data, bytes, cudaMemcpyDeviceToHost,
                               pair->stream));
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    barrier(pair->pg); // the other GPU's data is ready
    CUDA_CHECK(cudaMemcpyAsync(pair->scratch, pair->host[1 - pair->rank], bytes,
                               cudaMemcpyHostToDevice, pair->stream));
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    barrier(pair->pg); // the other GPU has copied, too
    LAUNCH(add, cuda_blocks(pair->numel, BLOCK), BLOCK, pair->stream, pair->data, pair->scratch,
           pair->numel);
}

static void close(Pair *pair)
{
    for (int rank = 0; rank < 2; rank++)
        CUDA_CHECK(cudaHostUnregister(pair->host[rank]));
    CUDA_CHECK(cudaFree(pair->scratch));
    CUDA_CHECK(cudaFree(pair->data));
}

const PairRung rung_by_host = { "by the host", open, run, close };
