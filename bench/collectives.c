/*
 * collectives - the time of an all-reduce by size, from 4 bytes to 16 MiB, as rank 0 sees it: the
 * median of its calls. Lines "ranks bytes seconds", for bench/alpha_beta.sh.
 *
 *     03_torchrun_env/ddprun --nproc-per-node 2 build/bench/collectives [backend [calls]]
 *
 * Or the collectives that are named, up to 64 MiB, each size FACTOR times the one before; lines in
 * the format of bench/suite.py, measured as bench/collectives.h describes. With FACTOR 4:
 *
 *     03_torchrun_env/ddprun --nproc-per-node 2 build/bench/collectives tcp 4 all_reduce broadcast
 */
#include "bench/collectives.h"
#include "common/base/words.h"
#include "common/comm/dist_env.h"
#include "common/comm/process_group.h"

enum { WARM_UP = 5, MAX_BYTES = 16 << 20 };

/* Times calls that follow one another, each beginning where the one before has ended, because ranks
 * that leave a barrier at different times would wait for each other in the measured call. */
static double median_seconds(ProcessGroup *pg, float *data, size_t count, int calls)
{
    double *seconds = mem_calloc((size_t)calls, sizeof *seconds);
    barrier(pg);
    for (int call = -WARM_UP; call < calls; call++) {
        const double begin = seconds_now();
        all_reduce(pg, data, count, FLOAT32, REDUCE_MEAN);
        if (call >= 0)
            seconds[call] = seconds_now() - begin;
    }
    const double middle = median(seconds, calls);
    free(seconds);
    return middle;
}

static void measure_all_reduce(ProcessGroup *pg, int calls)
{
    float *data = mem_calloc(MAX_BYTES, 1);
    for (size_t bytes = sizeof *data; bytes <= MAX_BYTES; bytes *= 4) {
        const double seconds = median_seconds(pg, data, bytes / sizeof *data, calls);
        if (pg->rank == 0)
            log_print("%d %zu %.9f", pg->world_size, bytes, seconds);
    }
    free(data);
}

static void our_all_reduce(void *group, const float *in, float *out, size_t count)
{
    (void)in;
    all_reduce(group, out, count, FLOAT32, REDUCE_SUM);
}

static void our_broadcast(void *group, const float *in, float *out, size_t count)
{
    (void)in;
    broadcast(group, out, count, FLOAT32, 0);
}

static void our_all_gather(void *group, const float *in, float *out, size_t count)
{
    const ProcessGroup *pg = group;
    all_gather(group, in, out, count / (size_t)pg->world_size, FLOAT32);
}

static void our_barrier(void *group)
{
    barrier(group);
}

static double our_largest(void *group, double seconds)
{
    return all_reduce_scalar(group, seconds, REDUCE_MAX);
}

int main(int argc, char **argv)
{
    words_check(argc, argv, argc,
                "Usage: 03_torchrun_env/ddprun --nproc-per-node 2 build/bench/collectives [backend "
                "[calls]]\n"
                "       03_torchrun_env/ddprun --nproc-per-node 2 build/bench/collectives backend "
                "factor NAME...\n\n"
                "The time of an all-reduce by size; or of the collectives named, in sizes that "
                "grow by the factor.\n");
    Args args;
    args_defaults(&args, "cnn");
    option_set(args_option("backend"), &args, argc > 1 ? argv[1] : "tcp", NULL);
    const int calls = argc > 2 ? atoi(argv[2]) : 51;
    CHECK(calls > 0, "%s calls: it is a number from 1 on", argv[2]);
    DistEnv env;
    dist_env_init(&env);
    log_set_rank(env.rank, env.world_size);
    ProcessGroup pg;
    process_group_init(&pg, &args, env.master_addr, env.master_port, env.rank, env.world_size,
                       (MemoryLocation){ 0 });
    const Collectives collectives = { env.rank,
                                      env.world_size,
                                      &pg,
                                      our_barrier,
                                      our_largest,
                                      { { "all_reduce", our_all_reduce },
                                        { "broadcast", our_broadcast },
                                        { "all_gather", our_all_gather } } };
    if (argc > 3)
        measure_collectives(&collectives, argc - 2, argv + 2);
    else
        measure_all_reduce(&pg, calls);
    process_group_destroy(&pg);
    return 0;
}
