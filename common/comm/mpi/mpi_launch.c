/*
 * Open MPI calls a process that no launcher started a world of one, without complaint; and a rank
 * may have a second launcher's numbers (srun around mpirun). Both would train the wrong model in
 * silence, so the variables are compared before MPI_Init, and MPI's own numbers after it.
 */
#include "common/comm/mpi/mpi_launch.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/env.h"

/* Variables of Open MPI; of PMIx (srun --mpi=pmix), which has the size elsewhere; of PMI (MPICH,
 * Intel MPI, srun --mpi=pmi2). */
static const struct {
    const char *rank, *size;
} variables[] = {
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
    { "PMIX_RANK", NULL },
    { "PMI_RANK", "PMI_SIZE" },
};

void mpi_launch_compare(int rank, int world_size, int mpi_rank, int mpi_size)
{
    CHECK(
        mpi_rank == rank && mpi_size == world_size,
        "this is rank %d of %d, but rank %d of %d for MPI: start every rank by one mpirun or srun "
        "--mpi=pmix, and nothing in between that starts ranks",
        rank, world_size, mpi_rank, mpi_size);
}

void mpi_launch_check(int rank, int world_size)
{
    bool launched = false;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *size = variables[i].size;
        if (getenv(variables[i].rank) == NULL || (size != NULL && getenv(size) == NULL))
            continue;
        launched = true;
        mpi_launch_compare(rank, world_size, env_int(variables[i].rank),
                           size != NULL ? env_int(size) : world_size);
    }
    if (launched)
        return;
    if (getenv("SLURM_STEP_NUM_TASKS") != NULL && getenv("TORCHELASTIC_RUN_ID") == NULL)
        usage_error(
            "--backend mpi needs ranks that an MPI launcher started, and this srun is none: "
            "type SLURM_MPI_TYPE=pmix before run.sh, sbatch or srun (srun --mpi=list shows what "
            "there is), or leave the option out");
    usage_error("--backend mpi needs ranks that an MPI launcher started: type LAUNCHER=mpirun "
                "before run.sh (from step 03 on), or mpirun -n %d before the program (in a Slurm "
                "job srun --mpi=pmix), or leave the option out",
                world_size);
}
