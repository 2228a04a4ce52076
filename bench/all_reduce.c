/*
 * all_reduce - the time of an all-reduce over several nodes, flat and hierarchical, by size. The
 * ranks of a launcher, cut into nodes of equal size; on one machine these are pretended. The two
 * ways take turns; the median of each, as rank 0 sees it.
 *
 *     03_torchrun_env/ddprun --nproc-per-node 4 build/bench/all_reduce [nodes [calls [options of
 * train]]]
 */
#include <stdlib.h>

#include "bench/median.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/words.h"
#include "common/comm/env.h"
#include "extras/hierarchical/hierarchy.h"

enum { WARM_UP = 3 };

static double measure(ProcessGroup *pg, float *data, size_t count, bool staged)
{
    barrier(pg);
    const double start = seconds_now();
    if (staged)
        work_wait(hierarchical_all_reduce(hierarchy_of(pg), data, count));
    else
        all_reduce(pg, data, count, FLOAT32, REDUCE_MEAN);
    return seconds_now() - start;
}

int main(int argc, char **argv)
{
    words_check(argc < 3 ? argc : 3, argv, 2,
                "Usage: 03_torchrun_env/ddprun --nproc-per-node 4 build/bench/all_reduce [nodes "
                "[calls [options of train]]]\n\n"
                "The time of an all-reduce over several nodes, flat and hierarchical, by size.\n");
    const int num_nodes = argc > 1 ? atoi(argv[1]) : 2, calls = argc > 2 ? atoi(argv[2]) : 51;
    Args args;
    args_parse(&args, STEP_NODES, argc > 3 ? argc - 2 : 1, argc > 3 ? argv + 2 : argv);
    args.all_reduce = ALL_REDUCE_HIERARCHICAL;
    ProcessGroup pg;
    const int rank = env_int("RANK"), world_size = env_int("WORLD_SIZE");
    process_group_init(&pg, &args, env_str("MASTER_ADDR"), env_int("MASTER_PORT"), rank, world_size,
                       (MemoryLocation){ 0 });
    process_group_set_nodes(&pg, &args, rank * num_nodes / world_size);
    CHECK(pg.nodes->comm_hook != NULL, "several nodes of several ranks are needed");

    const size_t counts[] = { 1, 1024, 4096, 8192, 16384, 65536, 262144, 1200000, 4800000 };
    double *seconds[2] = { mem_calloc((size_t)calls, sizeof(double)),
                           mem_calloc((size_t)calls, sizeof(double)) };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        float *data = mem_calloc(counts[i], sizeof *data);
        for (int call = -WARM_UP; call < calls; call++)
            for (int staged = 0; staged < 2; staged++) {
                const double taken = measure(&pg, data, counts[i], staged);
                if (call >= 0)
                    seconds[staged][call] = taken;
            }
        if (rank == 0)
            log_print("%10.1f kB  flat %9.3f ms  hierarchical %9.3f ms", 4e-3 * (double)counts[i],
                      1e3 * median(seconds[0], calls), 1e3 * median(seconds[1], calls));
        free(data);
    }
    process_group_destroy(&pg);
    free(seconds[0]);
    free(seconds[1]);
    return 0;
}
