/*
 * Batch systems and containers limit a process in two ways: which cores it may run on (its affinity
 * mask), and how much of their time it gets (its control group's quota). Its memory is limited by
 * what other processes use, the other ranks among them.
 */
#include "common/base/host.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/log.h"

#define CGROUPS "/sys/fs/cgroup"
#define CROWD 16 // more ranks per core than this start slowly

/* "max 100000" or "150000 100000", microseconds of CPU per period. INT_MAX: no quota. */
static int quota_of(const char *folder)
{
    char path[PATH_MAX + sizeof "/cpu.max"];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return INT_MAX;
    long quota = 0, period = 0;
    const int fields = fscanf(file, "%ld %ld", &quota, &period);
    fclose(file);
    if (fields != 2 || quota <= 0 || period <= 0 || quota / period > INT_MAX)
        return INT_MAX;
    return quota > period ? (int)(quota / period) : 1;
}

/* cgroup v2: the line "0::/a/b" names this process's group, and the quotas of those above hold for
 * it, too. In a container that sees no further, it is "/". */
static int cgroup_cores(void)
{
    char line[PATH_MAX], group[PATH_MAX + sizeof CGROUPS] = CGROUPS;
    FILE *file = fopen("/proc/self/cgroup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(group, sizeof group, CGROUPS "%s", line + 3);
    }
    if (file != NULL)
        fclose(file);
    int cores = quota_of(group);
    while (strlen(group) > strlen(CGROUPS)) {
        *strrchr(group, '/') = '\0';
        const int quota = quota_of(group);
        cores = quota < cores ? quota : cores;
    }
    return cores;
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
    const int quota = cgroup_cores();
    return quota < cores ? quota : cores;
}

void host_tell_of_crowd(int num_ranks)
{
    const int num_cores = num_ranks > CROWD ? host_num_cores() : 1; // counting them reads files
    if (num_ranks > CROWD * num_cores)
        log_info("%d ranks share %d core%s: it takes a while until all have come", num_ranks,
                 num_cores, num_cores == 1 ? "" : "s");
}

char *host_cores(char *text, size_t bytes)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0)
        CPU_ZERO(&set); // there are more than a cpu_set_t can hold
    snprintf(text, bytes, "%s", CPU_COUNT(&set) == 0 ? "unknown" : "");

    size_t length = 0;
    for (int core = 0; core < CPU_SETSIZE && length < bytes; core++) {
        const bool first = core == 0 || !CPU_ISSET(core - 1, &set);
        const bool last = core + 1 == CPU_SETSIZE || !CPU_ISSET(core + 1, &set);
        if (CPU_ISSET(core, &set) && (first || last))
            length += (size_t)snprintf(text + length, bytes - length, "%s%d",
                                       !first       ? "-"
                                       : length > 0 ? ","
                                                    : "",
                                       core);
    }
    return text;
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

void host_reserve_descriptors(long count, int num_ranks)
{
    struct rlimit limit;
    SYS_CHECK(getrlimit(RLIMIT_NOFILE, &limit));
    if (limit.rlim_cur >= (rlim_t)count)
        return;
    CHECK(limit.rlim_max >= (rlim_t)count,
          "%d ranks take %ld descriptors here, and a process may open %ld: raise that (ulimit -n "
          "%ld)",
          num_ranks, count, (long)limit.rlim_max, count);
    limit.rlim_cur = (rlim_t)count;
    SYS_CHECK(setrlimit(RLIMIT_NOFILE, &limit));
}
