/* dist_env.h - finds out which rank this process is, under any launcher. */
#ifndef COMMON_COMM_DIST_ENV_H
#define COMMON_COMM_DIST_ENV_H

#include "common/base/host.h"
#include "common/base/memory.h"

typedef struct {
    int rank, world_size; // in the whole job
    int local_rank, local_world_size; // on this node
    int node; // number that all ranks of a node share, almost surely unique to the node
    const char *master_addr; // rank 0's node; NULL if not set, which only mpi allows
    int master_port; // 0 if not set

    const Launcher *launcher; // the launcher that set the variables
    char host[64]; // name of this machine
} DistEnv;

/* Fills env from launcher_find's variables, MASTER_ADDR and MASTER_PORT. If all ranks share a node,
 * these default to 127.0.0.1, and to torchrun's port or, under mpirun, one of the job's own.
 * Exports for later code LOCAL_RANK, LOCAL_WORLD_SIZE and, unless set, OMP_NUM_THREADS if Slurm
 * gives cores. Local. Dies with a line if there is no launcher, or its numbers are wrong. */
void dist_env_init(DistEnv *env);

/* Exports a number under one of torchrun's names for later code. Local. */
void dist_env_export(const char *name, int value, bool replace);

/* Prints one line to standard error: which rank this is, where it runs, and which variables define
 * that. `device` is the device's name, place its index. Local. */
void dist_env_log(const DistEnv *env, const char *device, MemoryLocation place);

/* Writes the cores this process may run on to text, as the kernel does: "0-3,8". Returns text. */
#define DIST_ENV_CORES_BYTES 128
char *dist_env_cores(char text[DIST_ENV_CORES_BYTES]);

#endif
