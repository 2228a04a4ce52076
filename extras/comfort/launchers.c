/*
 * Ranks that would each train alone, and save over each other's files: another job left variables
 * behind that win over the launcher's, or a launcher does not count the ranks. And shared cores.
 */
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/dist_env.h"
#include "common/comm/store/net.h"
#include "extras/comfort/parts.h"

#define HOW_TO_START "start this program with its run.sh, ddprun or torchrun"

static void refuse_unknown_launcher(void)
{
    static const char *const hints[] = { "PMIX_RANK",     "PMI_RANK",           "PMI_FD",
                                         "PALS_RANKID",   "JSM_NAMESPACE_RANK", "MLX_RANK",
                                         "FLUX_TASK_RANK" };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        CHECK(!host_env_is_set(hints[i]),
              "%s is set, so a launcher started this, but nothing says how many ranks there "
              "are: " HOW_TO_START,
              hints[i]);
    CHECK(host_env_count("SLURM_NTASKS") <= 1,
          "SLURM_NTASKS is %s, but srun did not start this: " HOW_TO_START, getenv("SLURM_NTASKS"));
    if (host_env_is_set("ACCELERATE_USE_CPU"))
        log_warning("accelerate has started one rank alone: for more, " HOW_TO_START);
}

/* Refuses a launcher whose names are unknown here, as HOROVOD_RANK and HOROVOD_SIZE. */
static void refuse_unknown_names(void)
{
    for (char **at = environ; at != NULL && *at != NULL; at++) { // NULL after clearenv
        const int length = (int)strcspn(*at, "=") - (int)strlen("_RANK");
        char size[96] = "";
        if (length > 0 && strncmp(*at + length, "_RANK=", 6) == 0)
            snprintf(size, sizeof size, "%.*s_SIZE", length, *at);
        CHECK(host_env_count(size) <= 1,
              "%.*s_RANK and %s are of an unknown launcher: " HOW_TO_START, length, *at, size);
    }
}

/* Returns true if `outer` may have started launchers and not ranks: per node, or srun --pty. */
static bool has_launchers(const Launcher *outer, const Launcher *used)
{
    const bool is_inner = used->is_mpi || host_env_is_set("TORCHELASTIC_RUN_ID");
    const char *per_node = getenv(outer->local_world_size);
    return (is_inner && per_node != NULL && atoi(per_node) == 1) ||
           (!outer->is_mpi && host_env_is_set("SLURM_PTY_PORT"));
}

/* Dies if `other` has started more ranks than the variables of `used` name. */
static void refuse_left_over(const Launcher *used, const Launcher *other)
{
    const char *rank = getenv(other->rank);
    const int ranks = host_env_count(used->world_size);
    const int started = other->world_size != NULL ? host_env_count(other->world_size) : 0;
    if (rank == NULL || ranks == 0 || started <= ranks || has_launchers(other, used))
        return;
    setenv(used->local_rank, rank, true); // so that only rank 0 prints the line
    usage_error("%s is %s of %d, but a launcher started %d (%s): unset %s, %s and %s, or start one "
                "launcher on each node",
                used->rank, getenv(used->rank), ranks, started, other->world_size, used->rank,
                used->world_size, used->local_rank);
}

/* Returns true if a server could listen at this address, or its name is not known here. */
static bool is_here(const char *host)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *addresses = NULL;
    if (getaddrinfo(host, "0", &hints, &addresses) != 0)
        return true;
    bool is_local = false;
    for (const struct addrinfo *at = addresses; at != NULL && !is_local; at = at->ai_next) {
        const int fd = socket(at->ai_family, at->ai_socktype, 0);
        is_local = fd < 0 || bind(fd, at->ai_addr, at->ai_addrlen) == 0;
        close(fd);
    }
    freeaddrinfo(addresses);
    return is_local;
}

/* Warns if MASTER_ADDR is not here: mpirun and srun leave it as it is; torchrun sets it. */
static void warn_of_master(const Launcher *used)
{
    const char *here = getenv(used->local_world_size), *host = getenv("MASTER_ADDR");
    const bool is_one_node = here != NULL && atoi(here) == host_env_count(used->world_size);
    if (used != &launchers[0] && is_one_node && atoi(getenv(used->rank)) == 0 && host != NULL &&
        !is_here(host))
        log_warning("MASTER_ADDR is %s, no address of this machine, but all ranks are here: unset "
                    "it if another job left it",
                    host);
}

/* Warns of srun --overcommit, whose tasks share cores, and mostly wait for each other. */
static void warn_of_overcommit(const Launcher *used)
{
    const int cores = used->cores != NULL ? host_env_count("SLURM_CPUS_ON_NODE") : 0;
    const char *tasks = getenv(used->local_world_size); // "4(x2)": those of rank 0's node first
    if (cores > 0 && tasks != NULL && atoi(tasks) > cores && atoi(getenv(used->rank)) == 0)
        log_warning("%d ranks share %d core%s here (SLURM_CPUS_ON_NODE): leave out srun's -O",
                    atoi(tasks), cores, cores == 1 ? "" : "s");
}

/* Returns how many ranks are on this machine; 0 if nothing says so. */
static int count_local_ranks(const Launcher *used)
{
    const int ranks = host_env_count(used->world_size), nodes = host_env_count("FLUX_JOB_NNODES");
    if (nodes > 0 && strcmp(used->rank, "FLUX_TASK_RANK") == 0)
        return (ranks + nodes - 1) / nodes;
    if (host_env_is_set(used->local_world_size))
        return host_env_count(used->local_world_size);
    const int deepspeed = host_env_count("LOCAL_SIZE"); // which has a name of its own
    const char *host = getenv("MASTER_ADDR"); // other machines do not reach a loopback address
    return deepspeed > 0 ? deepspeed : host != NULL && net_is_loopback(host) ? ranks : 0;
}

/* Exports by how many ranks later code divides the cores, and the threads of a rank that its
 * launcher has bound to some of its own cores: these are divided already. A launcher that OpenMP
 * has bound to one core, as it binds torchrun, gives that one to all ranks. */
static void share_cores(const Launcher *used)
{
    const int ranks = count_local_ranks(used), own = host_num_cores();
    const char *local_rank = getenv(used->local_rank);
    cpu_set_t set;
    if (used->cores != NULL || local_rank == NULL || atoi(local_rank) >= ranks)
        return;
    dist_env_export("LOCAL_WORLD_SIZE", ranks, true);
    if (sched_getaffinity(getppid(), sizeof set, &set) != 0 || CPU_COUNT(&set) <= own) {
        const bool binds = host_env_is_set("OMP_PROC_BIND") || host_env_is_set("OMP_PLACES") ||
                           host_env_is_set("GOMP_CPU_AFFINITY");
        if (binds && used == &launchers[0] && own == 1 && sysconf(_SC_NPROCESSORS_ONLN) > 1 &&
            atoi(local_rank) == 0)
            comfort_share_cores(ranks, false);
        return;
    }
    const int quota = comfort_core_quota(), cores = CPU_COUNT(&set);
    const int share = (quota < cores ? quota : cores) / ranks;
    dist_env_export("OMP_NUM_THREADS", share > own ? own : share > 1 ? share : 1, false);
}

void comfort_check_launchers(void)
{
    const Launcher *used = launcher_find();
    if (used == NULL) {
        refuse_unknown_launcher();
        refuse_unknown_names();
        return;
    }
    for (const Launcher *other = used + 1; other->rank != NULL; other++)
        refuse_left_over(used, other);
    warn_of_master(used);
    warn_of_overcommit(used);
    share_cores(used);
}
