/*
 * A rank of an MPI job, for tests/against/mpi/mpi.bats: forms a group with backend mpi and runs one
 * case.
 *
 * MPI=1 builds only; mpirun starts it. Usage: mpi_ranks CASE
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/host.h"
#include "common/base/log.h"
#include "common/comm/backend.h"
#include "common/comm/env.h"
#include "tests/common/comm/collective_cases.h"

static float data[1000];

static void two_kinds(ProcessGroup *pg)
{
    if (pg->rank == 1)
        broadcast(pg, data, 10, INT32, 0);
    else
        all_reduce(pg, data, 1000, FLOAT32, REDUCE_SUM);
}

static void two_counts(ProcessGroup *pg)
{
    reduce_scatter(pg, data, data + 500, pg->rank == 1 ? 10 : 20, FLOAT32, REDUCE_MAX);
}

static void two_types(ProcessGroup *pg)
{
    all_reduce(pg, data, 5, pg->rank == 1 ? INT32 : FLOAT32, REDUCE_MEAN);
}

static void two_ops(ProcessGroup *pg)
{
    all_reduce(pg, data, 5, FLOAT64, pg->rank == 1 ? REDUCE_MIN : REDUCE_MAX);
}

static void two_roots(ProcessGroup *pg)
{
    gather(pg, data, data + 10, 10, UINT8, pg->rank == 1 ? 1 : 0);
}

static void one_call_less(ProcessGroup *pg)
{
    if (pg->rank != 1)
        all_reduce(pg, data, 5, INT64, REDUCE_SUM);
}

static void short_message(ProcessGroup *pg)
{
    if (pg->rank == 0)
        pg_send(pg, data, 10, FLOAT32, 1);
    else
        pg_recv(pg, data, 11, FLOAT32, 0);
}

static void long_message(ProcessGroup *pg)
{
    if (pg->rank == 0)
        pg_send(pg, data, 11, FLOAT32, 1);
    else
        pg_recv(pg, data, 10, FLOAT32, 0);
}

static void absent(ProcessGroup *pg)
{
    pg->timeout = 1;
    if (pg->rank == 1)
        sleep(60);
    all_reduce(pg, data, 5, FLOAT32, REDUCE_SUM);
}

static void killed(ProcessGroup *pg)
{
    if (pg->rank == 1)
        raise(SIGKILL);
    all_reduce(pg, data, 5, FLOAT32, REDUCE_SUM);
}

static void too_many(ProcessGroup *pg)
{
    all_reduce(pg, data, (size_t)1 << 31, FLOAT32, REDUCE_SUM);
}

static void nodes(ProcessGroup *pg)
{
    const Args args = { 0 };
    process_group_set_nodes(pg, &args, pg->rank / 2);
    all_reduce(pg, data, 1000, FLOAT32, REDUCE_SUM);
}

static void nothing(ProcessGroup *pg)
{
    (void)pg;
}

/* Cases of groups that do not form, or form in another way. */

static void form(Args *args, ProcessGroup *pg, int rank, int world_size)
{
    process_group_init(pg, args, NULL, 0, rank, world_size, (MemoryLocation){ 0 });
}

static void form_over_store(Args *args, ProcessGroup *pg, int rank, int world_size)
{
    static Store store;
    store_init(&store, env_str("MASTER_ADDR"), env_int("MASTER_PORT"), rank == 0, 60);
    process_group_init_store(pg, args, &store, rank, world_size, (MemoryLocation){ 0 });
}

static void form_otherwise(Args *args, ProcessGroup *pg, int rank, int world_size)
{
    args->check_collectives = rank == 1;
    form(args, pg, rank, world_size);
}

static void form_stages(Args *args, ProcessGroup *pg, int rank, int world_size)
{
    args->all_reduce = ALL_REDUCE_HIERARCHICAL;
    form(args, pg, rank, world_size);
}

static void form_without_rank_1(Args *args, ProcessGroup *pg, int rank, int world_size)
{
    args->timeout = 1;
    if (rank == 1)
        sleep(60);
    form(args, pg, rank, world_size);
}

static void end_without_rank_1(ProcessGroup *pg)
{
    barrier(pg);
    pg->timeout = 1;
    if (pg->rank == 1)
        sleep(60);
    pg->backend->destroy(pg->state, pg);
}

static const struct {
    const char *name;
    void (*run)(ProcessGroup *pg);
    bool check_collectives;
    void (*form)(Args *args, ProcessGroup *pg, int rank, int world_size);
} cases[] = {
    { "all", collective_cases_run, false, form },
    { "all_checked", collective_cases_run, true, form },
    { "two_kinds", two_kinds, true, form },
    { "two_counts", two_counts, true, form },
    { "two_types", two_types, true, form },
    { "two_ops", two_ops, true, form },
    { "two_roots", two_roots, true, form },
    { "one_call_less", one_call_less, true, form },
    { "short_message", short_message, false, form },
    { "long_message", long_message, false, form },
    { "absent", absent, false, form },
    { "killed", killed, false, form },
    { "too_many", too_many, false, form },
    { "nodes", nodes, false, form },
    { "stages", nothing, false, form_stages },
    { "nothing", nothing, false, form },
    { "store", collective_rounding_run, false, form_over_store },
    { "otherwise", nothing, false, form_otherwise },
    { "without_rank_1", nothing, false, form_without_rank_1 },
    { "end_without_rank_1", end_without_rank_1, false, form },
};

/* Returns an environment variable that mpirun sets and a test may override. */
static int number(const char *overruling, const char *name)
{
    return env_int(getenv(overruling) != NULL ? overruling : name);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: mpi_ranks CASE");
    const Launcher *launcher = launcher_find();
    CHECK(launcher != NULL, "no launcher: start this program with mpirun");
    const int rank = number("RANK", launcher->rank);
    const int world_size = number("WORLD_SIZE", launcher->world_size);
    log_set_rank(rank, world_size);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        Args args = { .backend = BACKEND_MPI,
                      .timeout = 60,
                      .check_collectives = cases[i].check_collectives };
        ProcessGroup pg;
        cases[i].form(&args, &pg, rank, world_size);
        cases[i].run(&pg);
        process_group_destroy(&pg);
        return EXIT_SUCCESS;
    }
    die("%s: no such case", argv[1]);
}
