/*
 * many_ranks_mpi - a rank that uses MPI's own calls in a job whose start and step are measured
 * (bench/many_ranks.h).
 *
 *     bench/many_ranks.py --who mpirun
 */
#include <mpi.h>

#include "bench/many_ranks.h"
#include "common/base/words.h"

static void mpi_all_reduce(void *group, float *data, size_t count)
{
    (void)group;
    MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 3,
                "Usage: build/bench/many_ranks_mpi FOLDER BYTES CALLS\n\n"
                "A rank of MPI whose start and step are measured: bench/many_ranks.py calls it.\n");
    const double begun = seconds_now();
    CHECK(argc == 4, "usage: %s FOLDER BYTES CALLS", argv[0]);
    MPI_Init(&argc, &argv);
    int rank, world_size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    log_set_rank(rank, world_size);
    many_ranks_run(&(ManyRanks){ rank, begun, seconds_now(), NULL, mpi_all_reduce }, argv + 1);
    MPI_Finalize();
    return 0;
}
