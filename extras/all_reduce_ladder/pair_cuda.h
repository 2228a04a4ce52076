/*
 * pair_cuda.h - two GPUs, each with a process of its own, that sum an array: what the rungs of
 * extras/all_reduce_ladder share.
 */
#ifndef EXTRAS_ALL_REDUCE_LADDER_PAIR_CUDA_H
#define EXTRAS_ALL_REDUCE_LADDER_PAIR_CUDA_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "common/comm/process_group.h"

/* One of the two processes, as a rung sees it. */
typedef struct {
    int rank; // 0 or 1, also the GPU's number
    size_t numel;
    float *data; // in this GPU's memory, to be replaced by the sum of both
    float *host[2]; // host memory that both processes see, with room for each rank's data
    ProcessGroup *pg; // the two processes' group, for data in host memory
    cudaStream_t stream;

    // Used by some rungs.
    float *scratch; // room for the other GPU's data
    float *peer; // the other GPU's data, in its memory
    unsigned *flags, *peer_flags; // a flag for each block, in this GPU's memory and in the other's
    unsigned turn; // number of calls so far
    struct ncclComm *comm;
    struct ncclWindow_vidmem *window;
} Pair;

/* A way to sum. All functions are collective. */
typedef struct {
    const char *name;
    const char *(*open)(Pair *pair); // allocates data; returns NULL, or what is missing, in words
    void (*run)(Pair *pair); // queues the sum on the stream, or has done it
    void (*close)(Pair *pair);
} PairRung;

/* Ends the process if a call of NCCL fails; for rungs, which include <nccl.h> themselves. */
#define PAIR_CHECK(call) \
    do { \
        const ncclResult_t result = (call); \
        CHECK(result == ncclSuccess, "%s: %s", #call, ncclGetErrorString(result)); \
    } while (0)

extern const PairRung rung_by_host, rung_peer_copy, rung_ring_kernel, rung_nccl, rung_symmetric,
    rung_device_api;

#ifdef __cplusplus
}
#endif

#endif
