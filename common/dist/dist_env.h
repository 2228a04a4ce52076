/* dist_env.h - which rank is this process, whatever launcher started it? */
#ifndef COMMON_DIST_DIST_ENV_H
#define COMMON_DIST_DIST_ENV_H

#include "common/base/place.h"

typedef struct {
    int rank, world_size; // in the whole job
    int local_rank, local_world_size; // on this node
    int node; // a number that the ranks of one node share, and hardly another node has
    const char *master_addr; // rank 0's node; NULL where nobody says: only mpi needs none
    int master_port; // 0 where nobody says

    const struct Launcher *launcher; // whose variables these are
    char host[64]; // name of this machine
} DistEnv;

/* Is this a rank of a job, and no program that somebody has typed? */
bool dist_env_found(void);

/* Looks for the variables of torchrun (and ddprun), Open MPI's mpirun, Slurm's srun, and of all
 * that speak PMI (MPICH, Intel MPI), in this order, since mpirun inside a Slurm job hands Slurm's
 * to its ranks too, all alike. MASTER_ADDR and MASTER_PORT are read whoever the launcher is; where
 * all ranks share a node they may be missing, and are 127.0.0.1 and torchrun's default port then.
 *
 * What later parts look up is set under torchrun's names: LOCAL_RANK and LOCAL_WORLD_SIZE; and
 * OMP_NUM_THREADS, unless it is there, where Slurm says how many cores a task has.
 *
 * Local. Dies with one line where there is no launcher, or where numbers make no sense. */
void dist_env_init(DistEnv *env);

/* Prints one line to standard error: who this rank is, where it runs, and which variables said so.
 * `device` is the device's name, place says which one it is. Local. */
void dist_env_log(const DistEnv *env, const char *device, Place place);

#endif
