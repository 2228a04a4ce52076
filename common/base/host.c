/* Finds the launcher that started this process, and the cores that it may run on. */
#include "common/base/host.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/comfort.h"

/* Every launcher has its own variables. A batch script has SLURM_PROCID and SLURM_NTASKS, too; srun
 * alone sets SLURM_STEP_NUM_TASKS, and with --mpi=pmi2 also PMI_RANK and PMI_SIZE. */
const Launcher launchers[] = {
    { "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", .is_mpi = false },
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", .is_mpi = true },
    { "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
      "MV2_COMM_WORLD_LOCAL_SIZE", .is_mpi = true },
    { "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK",
      "JSM_NAMESPACE_LOCAL_SIZE", .is_mpi = true },
    { "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "LOCAL_WORLD_SIZE", .is_mpi = true },
    { "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", .is_mpi = true },
    { "SUBMITIT_LOCAL_GLOBALID", "SUBMITIT_LOCAL_NTASKS", "SUBMITIT_LOCAL_LOCALID",
      "SUBMITIT_LOCAL_NTASKS", .is_mpi = false }, // submitit without Slurm
    { "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE",
      "SLURM_NODEID", .cores = "SLURM_CPUS_PER_TASK" },
    { .rank = "PMIX_RANK", .is_mpi = true }, // srun --mpi=pmix sets no variable for the size
    { "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", .is_mpi = true },
    { .rank = NULL },
};

bool host_env_is_set(const char *name)
{
    return name != NULL && getenv(name) != NULL && *getenv(name) != '\0';
}

const Launcher *launcher_find(void)
{
    const Launcher *found = NULL;
    for (const Launcher *at = launchers; at->rank != NULL; at++) {
        const bool is_set = host_env_is_set(at->rank) && host_env_is_set(at->world_size);
        if (is_set && (at == launchers || host_env_is_set(at->local_rank)))
            return at;
        found = is_set && found == NULL ? at : found;
    }
    return found;
}

int host_env_count(const char *name)
{
    char *end;
    const long value = strtol(getenv(name) != NULL ? getenv(name) : "", &end, 10);
    return value > 0 && value <= 1 << 20 && strchr(", ", *end) != NULL ? (int)value : 0; // or '\0'
}

int host_num_cores(void)
{
    cpu_set_t set;
    const bool fits = sched_getaffinity(0, sizeof set, &set) == 0; // a cpu_set_t holds 1,024
    const int cores = fits ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    const int quota = comfort_core_quota();
    return quota < cores ? quota : cores;
}
