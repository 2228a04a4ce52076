/*
 * Every launcher numbers its ranks in variables of its own. A table lists them; the first launcher
 * whose rank and world size are both set is used.
 *
 * SLURM_PROCID is 0 in the batch script too, where SLURM_NTASKS is also set: only a step, which
 * srun starts, has SLURM_STEP_NUM_TASKS.
 */
#include "common/base/launcher.h"

#include <stdlib.h>

static const Launcher launchers[] = {
    { "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", NULL },
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL },
    { "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE",
      "SLURM_NODEID", "SLURM_CPUS_PER_TASK" },
    { "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL },
};

const Launcher *launcher_find(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        if (getenv(launchers[i].rank) != NULL && getenv(launchers[i].world_size) != NULL)
            return &launchers[i];
    return NULL;
}
