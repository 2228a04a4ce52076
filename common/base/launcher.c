/*
 * Every launcher numbers its ranks in variables of its own. A table lists them; the first launcher
 * whose rank and world size are both set is used.
 *
 * SLURM_PROCID is 0 in the batch script too, where SLURM_NTASKS is also set: only a step, which
 * srun starts, has SLURM_STEP_NUM_TASKS.
 */
#include "common/base/launcher.h"

#include <stdio.h>
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

/* Without the address of its rank 0, a job has its launcher's number: that of mpirun and PMIx
 * first, whose ranks may be in several steps of Slurm. */
char *launcher_job(char *name, size_t bytes)
{
    const char *addr = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    const char *space = getenv("PMIX_NAMESPACE");
    const char *slurm = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    name[0] = '\0';
    if (addr != NULL && port != NULL)
        snprintf(name, bytes, "the job at %s:%s", addr, port);
    else if (space != NULL)
        snprintf(name, bytes, "the job %s", space);
    else if (slurm != NULL && step != NULL)
        snprintf(name, bytes, "the job %s.%s", slurm, step);
    return name;
}
