/*
 * Batch systems and containers limit a process in two ways: which cores it may run on (its affinity
 * mask), and how much of their time it gets (its control group's quota, see comfort.h). Its memory
 * is limited by what other processes use, the other ranks among them.
 */
#include "common/base/host.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/comfort.h"

/* Every launcher has its own variables; the first whose rank and world size are both set is used.
 * SLURM_PROCID is 0 in the batch script too, where SLURM_NTASKS is also set: only a step, which
 * srun starts, has SLURM_STEP_NUM_TASKS. */
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

int host_env_count(const char *name)
{
    const char *text = getenv(name);
    if (text == NULL)
        return 0;
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    const bool ends = strchr(", ", *end) != NULL; // or there is no more
    return ends && value > 0 && value <= 1 << 20 ? (int)value : 0;
}

int host_num_cores(void)
{
    cpu_set_t set;
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN); // if there are more than a cpu_set_t can hold
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = CPU_COUNT(&set);
    const int quota = comfort_core_quota();
    return quota < cores ? quota : cores;
}

size_t host_free_memory(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL)
        return SIZE_MAX;
    char line[128];
    size_t kib = 0, total = 0, available = 0, swap = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemTotal: %zu kB", &kib) == 1)
            total = kib;
        else if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
            available = kib;
        else if (sscanf(line, "SwapFree: %zu kB", &kib) == 1)
            swap = kib;
    }
    fclose(file);
    if (total == 0 || available == 0)
        return SIZE_MAX;
    const size_t reserve = total / 16;
    return available + swap > reserve ? (available + swap - reserve) * 1024 : 0;
}
