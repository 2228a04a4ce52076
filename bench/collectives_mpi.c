/*
 * collectives_mpi - the time of MPI's own collectives by size, as bench/collectives.h takes it:
 * what our backends are compared with.
 *
 *     mpirun -n 2 build/bench/collectives_mpi 4 all_reduce broadcast all_gather
 */
#include <mpi.h>

#include "bench/collectives.h"
#include "common/base/words.h"

static void mpi_all_reduce(void *group, const float *in, float *out, size_t count)
{
    (void)group, (void)in;
    MPI_Allreduce(MPI_IN_PLACE, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void mpi_broadcast(void *group, const float *in, float *out, size_t count)
{
    (void)group, (void)in;
    MPI_Bcast(out, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void mpi_all_gather(void *group, const float *in, float *out, size_t count)
{
    const Collectives *c = group;
    const int share = (int)count / c->world_size;
    MPI_Allgather(in, share, MPI_FLOAT, out, share, MPI_FLOAT, MPI_COMM_WORLD);
}

static void mpi_barrier(void *group)
{
    (void)group;
    MPI_Barrier(MPI_COMM_WORLD);
}

static double mpi_largest(void *group, double seconds)
{
    (void)group;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

int main(int argc, char **argv)
{
    words_check(argc, argv, argc,
                "Usage: mpirun -n 2 build/bench/collectives_mpi factor NAME...\n\n"
                "The time of MPI's own collectives, in sizes that grow by the factor.\n");
    MPI_Init(&argc, &argv);
    Collectives c = { .group = &c,
                      .barrier = mpi_barrier,
                      .largest = mpi_largest,
                      .operations = { { "all_reduce", mpi_all_reduce },
                                      { "broadcast", mpi_broadcast },
                                      { "all_gather", mpi_all_gather } } };
    MPI_Comm_rank(MPI_COMM_WORLD, &c.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c.world_size);
    log_set_rank(c.rank, c.world_size);
    measure_collectives(&c, argc - 1, argv + 1);
    MPI_Finalize();
    return 0;
}
