/* Batch systems and containers limit a process in two ways: which cores it may run on, and how much
 * of their time it gets, the quota of its control group. This reads the quota. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/base/host.h"
#include "common/base/log.h"
#include "extras/comfort/parts.h"

#define CGROUPS "/sys/fs/cgroup"
#define MAX_RANKS_PER_CORE 16 // more ranks per core than this start slowly

/* Reads a group's "max 100000" or "150000 100000": CPU microseconds per period. INT_MAX if none. */
static int quota_of(const char *group)
{
    char path[PATH_MAX + sizeof CGROUPS "/cpu.max"];
    long quota = 0, period = 0;
    snprintf(path, sizeof path, CGROUPS "%s/cpu.max", group);
    FILE *file = fopen(path, "r");
    const bool limited = file != NULL && fscanf(file, "%ld %ld", &quota, &period) == 2 &&
                         quota > 0 && period > 0 && quota / period < INT_MAX;
    if (file != NULL)
        fclose(file);
    return !limited ? INT_MAX : quota > period ? (int)(quota / period) : 1;
}

/* Returns the smallest quota of this process's group, which the line "0::/a/b" (cgroup v2) names,
 * and the groups above. In a container with its own namespace the line has "/". */
int comfort_core_quota(void)
{
    char group[PATH_MAX] = "/";
    FILE *file = fopen("/proc/self/cgroup", "r");
    for (char line[PATH_MAX]; file != NULL && fgets(line, sizeof line, file) != NULL;)
        sscanf(line, "0::%4095[^\n]", group);
    if (file != NULL)
        fclose(file);
    int cores = quota_of(group);
    for (char *slash; (slash = strrchr(group, '/')) != NULL;) {
        *slash = '\0';
        const int quota = quota_of(group);
        cores = quota < cores ? quota : cores;
    }
    return cores;
}

/* OpenMP binds each process as if it were alone, and so the first threads of all to one core. Ranks
 * that this process starts, as ddprun does, do not get its variables; a fork comes too late. */
void comfort_share_cores(int num_ranks, bool is_bound)
{
    static const char *const names[] = { "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY" };
    const char *binds = getenv(names[0]);
    const bool is_off = binds != NULL && strcasecmp(binds, "false") == 0;
    for (int i = 0; i < 3 && num_ranks > 1 && !is_bound && !is_off; i++) {
        if (getenv(names[i]) != NULL)
            log_warning("%s=%s binds all %d ranks here to the same cores: unset it", names[i],
                        getenv(names[i]), num_ranks);
        unsetenv(names[i]);
    }
    const int num_cores =
        num_ranks > MAX_RANKS_PER_CORE ? host_num_cores() : 1; // counting them reads files
    if (num_ranks > MAX_RANKS_PER_CORE * num_cores)
        log_info("%d ranks share %d core%s: it takes a while until all have come", num_ranks,
                 num_cores, num_cores == 1 ? "" : "s");
}
