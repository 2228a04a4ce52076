/* launcher.h - the variables in which launchers tell a process which rank it is. */
#ifndef COMMON_BASE_LAUNCHER_H
#define COMMON_BASE_LAUNCHER_H

typedef struct {
    const char *rank, *world_size, *local_rank, *local_world_size;
    const char *node; // NULL: nodes are not numbered
    const char *cores; // per rank, if the launcher says
} Launcher;

/* torchrun (and ddprun), Open MPI's mpirun, Slurm's srun, and PMI (MPICH, Intel MPI), in this
 * order: mpirun inside a Slurm job also passes on Slurm's, the same to every rank. NULL: this
 * process is no rank of any. */
const Launcher *launcher_find(void);

#endif
