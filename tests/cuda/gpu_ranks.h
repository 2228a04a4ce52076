/* gpu_ranks.h - for tests: ranks with a GPU each, on the stand-in. */
#ifndef TESTS_CUDA_GPU_RANKS_H
#define TESTS_CUDA_GPU_RANKS_H

#include "tests/cuda/gpu_arrays.h"
#include "tests/cuda_stand_in/counts.h"
#include "tests/helpers/ranks.h"

/* Forms a group on GPU number `index`, and places the arrays of cases there. */
static inline void gpu_rank_join(Rank *rank, ProcessGroup *pg, BackendKind backend, int index)
{
    rank->args.backend = backend;
    const MemoryLocation place = gpu_use(index);
    process_group_init_store(pg, &rank->args, &rank->store, rank->rank, rank->world_size, place);
}

/* Leaves the group. No thread of it may have called CUDA on a GPU other than its rank's, because
 * that creates a context there, of half a gigabyte for each rank. Nor may a call have left a thread
 * of NCCL's or a communicator, with its threads and buffers. */
static inline void gpu_rank_leave(ProcessGroup *pg)
{
    const int index = pg->place.index;
    process_group_destroy(pg);
    const StandInCounts counts = stand_in_counts();
    CHECK(counts.contexts == 1u << index, "contexts on GPUs 0x%x, not on %d alone", counts.contexts,
          index);
    CHECK(counts.nccl_comms == 0, "%ld communicators are left", counts.nccl_comms);
    CHECK(counts.nccl_threads == 0, "NCCL has started %ld threads for its calls",
          counts.nccl_threads);
}

#endif
