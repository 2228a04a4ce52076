/*
 * many_ranks - a rank of ours in a job whose start and step are measured (bench/many_ranks.h).
 *
 *     bench/many_ranks.py --who ddprun
 */
#include "bench/many_ranks.h"
#include "common/base/words.h"
#include "common/comm/dist_env.h"
#include "common/comm/process_group.h"

static void our_all_reduce(void *group, float *data, size_t count)
{
    all_reduce(group, data, count, FLOAT32, REDUCE_SUM);
}

int main(int argc, char **argv)
{
    words_check(
        argc, argv, 3,
        "Usage: build/bench/many_ranks FOLDER BYTES CALLS\n\n"
        "A rank of ours whose start and step are measured: bench/many_ranks.py calls it.\n");
    const double begun = seconds_now();
    CHECK(argc == 4, "usage: %s FOLDER BYTES CALLS", argv[0]);
    Args args;
    args_defaults(&args, "cnn");
    args.backend = BACKEND_TCP;
    DistEnv env;
    dist_env_init(&env);
    log_set_rank(env.rank, env.world_size);
    ProcessGroup pg;
    process_group_init(&pg, &args, env.master_addr, env.master_port, env.rank, env.world_size,
                       (MemoryLocation){ 0 });
    many_ranks_run(&(ManyRanks){ env.rank, begun, seconds_now(), &pg, our_all_reduce }, argv + 1);
    process_group_destroy(&pg);
    return 0;
}
