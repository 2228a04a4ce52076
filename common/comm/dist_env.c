/* The numbers come from the launcher's variables (host.c). What no variable contains is derived:
 * how many ranks this node has, which node it is, and where rank 0 is. */
#include "common/comm/dist_env.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/comfort.h"
#include "common/base/host.h"
#include "common/base/log.h"
#include "common/comm/env.h"

static const Launcher *require_launcher(void)
{
    const Launcher *launcher = launcher_find();
    if (launcher != NULL)
        return launcher;
    if (host_env_is_set("SLURM_JOB_ID"))
        die("this is a job of Slurm, but not a step of one: put srun in front of the program");
    die("%s is not set, nor are the variables of mpirun or srun: start this program with its "
        "run.sh, ddprun, torchrun, mpirun or srun",
        host_env_is_set("RANK") ? "WORLD_SIZE" : "RANK");
}

/* Reads Slurm's counts of tasks, node by node: "2(x3),1" are three nodes of 2, then one of 1. */
static int tasks_of_node(const char *name, int node)
{
    const char *counts = env_text(name), *text = counts;
    for (long nodes = 0; *text != '\0'; text += *text == ',') {
        int tasks = 0, times = 1, length = 0, more = 0;
        const int found = sscanf(text, "%9d%n(x%6d)%n", &tasks, &length, &times, &more);
        text += more > 0 ? more : length;
        CHECK(found > 0 && tasks > 0 && times > 0 && (*text == ',' || *text == '\0'),
              "%s is \"%s\": it should be like 2(x3),1, as srun sets it", name, counts);
        nodes += times;
        if (node < nodes)
            return tasks;
    }
    die("%s is \"%s\", which says nothing of node %d", name, counts, node);
}

/* Returns 0 if not set. */
static int find_local_world_size(const DistEnv *env)
{
    const char *name = env->launcher->local_world_size;
    if (!host_env_is_set(name))
        return 0;
    return strncmp(name, "SLURM_", 6) == 0 ? tasks_of_node(name, env->node) : env_number(name);
}

void dist_env_export(const char *name, int value, bool replace)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    SYS_CHECK(setenv(name, text, replace));
}

/* Returns a port of the job's own under mpirun and srun's PMI, else torchrun's. */
static int default_port(void)
{
    const char *job = getenv("PMIX_NAMESPACE");
    if (job != NULL)
        return 20000 + (int)(crc32(0, (const Bytef *)job, (uInt)strlen(job)) % 10000);
    struct ucred launcher = { .pid = 0 }; // it made the socket on which it answers a rank
    socklen_t bytes = sizeof launcher;
    if (host_env_is_set("PMI_FD"))
        getsockopt(env_number("PMI_FD"), SOL_SOCKET, SO_PEERCRED, &launcher, &bytes);
    return launcher.pid > 0 ? 20000 + launcher.pid % 10000 : 29500;
}

static void find_master(DistEnv *env)
{
    const bool is_one_node = env->local_world_size == env->world_size;
    env->master_addr = host_env_is_set("MASTER_ADDR") ? env_text("MASTER_ADDR")
                       : is_one_node                  ? "127.0.0.1"
                                                      : NULL;
    env->master_port = host_env_is_set("MASTER_PORT") ? env_number("MASTER_PORT")
                       : is_one_node                  ? default_port()
                                                      : 0;
}

void dist_env_init(DistEnv *env)
{
    *env = (DistEnv){ .launcher = require_launcher() };
    const Launcher *launcher = env->launcher;
    comfort_check_launchers();
    // No launcher of these ranks serves a store. (Where srun is only simulated, one does.)
    if (launcher != &launchers[0] && (launcher->is_mpi || host_env_is_set("SLURM_JOB_ID")))
        unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    env->rank = env_number(launcher->rank);
    env->world_size = env_number(launcher->world_size);
    env->local_rank = env_number(launcher->local_rank);
    CHECK(env->rank < env->world_size, "%s is %d, but %s is %d: ranks are counted from 0",
          launcher->rank, env->rank, launcher->world_size, env->world_size);

    if (host_env_is_set("SLURMD_NODENAME")) // several may be one machine
        snprintf(env->host, sizeof env->host, "%s", getenv("SLURMD_NODENAME"));
    else
        gethostname(env->host, sizeof env->host - 1);
    env->node = host_env_is_set(launcher->node)
                    ? env_number(launcher->node)
                    : (int)(crc32(0, (const Bytef *)env->host, (uInt)strlen(env->host)) & INT_MAX);
    env->local_world_size = find_local_world_size(env);
    CHECK(env->local_world_size == 0 || env->local_rank < env->local_world_size,
          "%s is %d, but there are %d ranks on this node by %s", launcher->local_rank,
          env->local_rank, env->local_world_size, launcher->local_world_size);
    find_master(env);

    dist_env_export("LOCAL_RANK", env->local_rank, true); // overrides a stale value
    if (env->local_world_size > 0)
        dist_env_export("LOCAL_WORLD_SIZE", env->local_world_size, true);
    if (host_env_is_set(launcher->cores)) { // as the job asked for; the step may have fewer
        const int allotted = env_number(launcher->cores), here = host_num_cores();
        dist_env_export("OMP_NUM_THREADS", allotted < here ? allotted : here, false);
    }
}

char *dist_env_cores(char text[DIST_ENV_CORES_BYTES])
{
    char line[DIST_ENV_CORES_BYTES];
    FILE *file = fopen("/proc/self/status", "re");
    strcpy(text, "unknown");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "Cpus_allowed_list: %127s", text);
    if (file != NULL)
        fclose(file);
    return text;
}

void dist_env_log(const DistEnv *env, const char *device, MemoryLocation place)
{
    const Launcher *launcher = env->launcher;
    char node[80] = "", ranks[16] = "", cores[DIST_ENV_CORES_BYTES], index[16] = "";
    if (host_env_is_set(launcher->node))
        snprintf(node, sizeof node, "node %d (%s) is ", env->node, launcher->node);
    if (env->local_world_size > 0)
        snprintf(ranks, sizeof ranks, " of %d", env->local_world_size);
    if (place.on_gpu)
        snprintf(index, sizeof index, ":%d", place.index);
    log_info("%shost %s: local rank %d%s (%s), %s%s, cores %s; rank from %s; master "
             "%s:%d (%s)",
             node, env->host, env->local_rank, ranks, launcher->local_rank, device, index,
             dist_env_cores(cores), launcher->rank,
             env->master_addr != NULL ? env->master_addr : "unknown", env->master_port,
             host_env_is_set("MASTER_ADDR") ? "MASTER_ADDR"
             : env->master_addr != NULL     ? "all ranks are on one node"
                                            : "MASTER_ADDR is not set");
}
