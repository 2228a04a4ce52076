/* One kernel on each GPU: reduce-scatter and all-gather by loads from the other GPU's memory. */
#include "common/nn/cuda/cuda_launch.h"
#include "extras/all_reduce_ladder/pair_cuda.h"

enum { BLOCK = 512, BLOCKS = 32 }; // few enough to be on the GPU all at once

/* This block and the block of this number on the other GPU wait for each other. */
static __device__ void meet(volatile unsigned *flags, volatile unsigned *peer_flags, unsigned turn)
{
    __syncthreads(); // all of the block has read and written what it had to
    if (threadIdx.x == 0) {
        __threadfence_system(); // the other GPU sees that before it sees the flag
        peer_flags[blockIdx.x] = turn;
        while (flags[blockIdx.x] < turn)
            __nanosleep(20);
        __threadfence_system();
    }
    __syncthreads();
}

static __global__ void ring(float *data, const float *peer, size_t numel, int rank, unsigned *flags,
                            unsigned *peer_flags, unsigned turn)
{
    const size_t half = numel / 2, first = rank == 0 ? 0 : half; // start of the half that it sums
    const size_t last = rank == 0 ? half : numel, others = half - first;
    const size_t others_last = rank == 0 ? numel : half, step = BLOCKS * BLOCK;
    meet(flags, peer_flags, turn - 2); // the other GPU's data is ready
    for (size_t i = first + my_index<BLOCK>(); i < last; i += step)
        data[i] += peer[i];
    meet(flags, peer_flags, turn - 1); // the other GPU has summed its half
    for (size_t i = others + my_index<BLOCK>(); i < others_last; i += step)
        data[i] = peer[i];
    meet(flags, peer_flags, turn); // the other GPU has copied, too
}

static const char *open(Pair *pair)
{
    const size_t bytes = pair->numel * sizeof(float), flag_bytes = BLOCKS * sizeof(unsigned);
    CUDA_CHECK(cudaMalloc((void **)&pair->data, bytes));
    CUDA_CHECK(cudaMalloc((void **)&pair->flags, flag_bytes));
    CUDA_CHECK(cudaMemset(pair->flags, 0, flag_bytes));
    CUDA_CHECK(cudaDeviceSynchronize()); // before the other GPU raises one
    // An address means nothing in another process. A handle does: there it becomes an address.
    cudaIpcMemHandle_t mine[2], handles[4];
    CUDA_CHECK(cudaIpcGetMemHandle(&mine[0], pair->data));
    CUDA_CHECK(cudaIpcGetMemHandle(&mine[1], pair->flags));
    all_gather(pair->pg, mine, handles, sizeof mine, UINT8);
    const cudaIpcMemHandle_t *theirs = &handles[2 * (1 - pair->rank)];
    CUDA_CHECK(
        cudaIpcOpenMemHandle((void **)&pair->peer, theirs[0], cudaIpcMemLazyEnablePeerAccess));
    CUDA_CHECK(cudaIpcOpenMemHandle((void **)&pair->peer_flags, theirs[1],
                                    cudaIpcMemLazyEnablePeerAccess));
    pair->turn = 0;
    return NULL;
}

static void run(Pair *pair)
{
    pair->turn += 3;
    LAUNCH(ring, BLOCKS, BLOCK, pair->stream, pair->data, pair->peer, pair->numel, pair->rank,
           pair->flags, pair->peer_flags, pair->turn);
}

static void close(Pair *pair)
{
    CUDA_CHECK(cudaStreamSynchronize(pair->stream));
    CUDA_CHECK(cudaIpcCloseMemHandle(pair->peer_flags));
    CUDA_CHECK(cudaIpcCloseMemHandle(pair->peer));
    barrier(pair->pg); // freeing memory that the other process has open would break it
    CUDA_CHECK(cudaFree(pair->flags));
    CUDA_CHECK(cudaFree(pair->data));
}

const PairRung rung_ring_kernel = { "ring kernel", open, run, close };
