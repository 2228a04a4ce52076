/*
 * A rank of NCCL on a real GPU, for nccl.py: every collective, send and recv. Its rank and world
 * size are in the environment, as set by a launcher.
 *
 *     RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=... nccl_ranks
 */
#include "common/base/args.h"
#include "common/comm/env.h"
#include "tests/common/comm/collective_cases.h"
#include "tests/cuda/gpu_arrays.h"

enum { EXACT_RANKS = 5 }; // collective_cases_run

int main(void)
{
    const int rank = env_int("RANK"), world_size = env_int("WORLD_SIZE");
    log_set_rank(rank, world_size);
    Args args;
    args_defaults(&args, "linear");
    args.backend = BACKEND_NCCL;
    ProcessGroup pg;
    process_group_init(&pg, &args, env_str("MASTER_ADDR"), env_int("MASTER_PORT"), rank, world_size,
                       gpu_use(env_int("LOCAL_RANK")));
    if (world_size <= EXACT_RANKS)
        collective_cases_run(&pg);
    collective_order_run(&pg); // send and recv between each two
    process_group_destroy(&pg);
    return 0;
}
