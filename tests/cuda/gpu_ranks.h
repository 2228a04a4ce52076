/* gpu_ranks.h - for tests: ranks with a GPU each, and the arrays of collective cases on it. */
#ifndef TESTS_CUDA_GPU_RANKS_H
#define TESTS_CUDA_GPU_RANKS_H

#include "common/base/cuda.h"
#include "tests/common/comm/collective_case.h"
#include "tests/cuda_stand_in/counts.h"
#include "tests/helpers/ranks.h"

static cudaStream_t compute; // of this rank

/* Device memory with these numbers in it, in the order of the compute stream, and back. */
static inline void *gpu_array_new(const void *initial, size_t bytes)
{
    void *array;
    CUDA_CHECK(cudaMalloc(&array, bytes));
    CUDA_CHECK(cudaMemcpyAsync(array, initial, bytes, cudaMemcpyHostToDevice, compute));
    return array;
}

static inline void gpu_array_read(void *to, const void *array, size_t bytes)
{
    CUDA_CHECK(cudaMemcpyAsync(to, array, bytes, cudaMemcpyDeviceToHost, compute));
    CUDA_CHECK(cudaStreamSynchronize(compute));
}

static inline void gpu_array_free(void *array)
{
    CUDA_CHECK(cudaFree(array));
}

/* Forms a group on GPU number `index`; from then on the arrays of cases lie there. */
static inline void gpu_rank_join(Rank *rank, ProcessGroup *pg, const char *backend, int index)
{
    static const CaseMemory memory = { gpu_array_new, gpu_array_read, gpu_array_free };
    CUDA_CHECK(cudaSetDevice(index));
    CUDA_CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    case_memory = &memory;
    rank->args.backend = backend;
    const MemoryLocation place = { .on_gpu = true, .index = index, .stream = compute };
    process_group_init_store(pg, &rank->args, &rank->store, rank->rank, rank->world_size, place);
}

/* Leaves the group. No thread of it may have called CUDA on another GPU than its rank's: that makes
 * a context there, of half a gigabyte for each rank. Nor may a call have cost a thread of NCCL's.
 */
static inline void gpu_rank_leave(ProcessGroup *pg)
{
    const int index = pg->place.index;
    process_group_destroy(pg);
    const StandInCounts counts = stand_in_counts();
    CHECK(counts.contexts == 1u << index, "contexts on GPUs 0x%x, not on %d alone", counts.contexts,
          index);
    CHECK(counts.nccl_threads == 0, "NCCL has started %ld threads for its calls",
          counts.nccl_threads);
}

#endif
