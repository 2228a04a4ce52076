/* host.h - what this machine offers a process: cores and GPUs; and what its launcher says. */
#ifndef COMMON_BASE_HOST_H
#define COMMON_BASE_HOST_H

#include <stdbool.h>

/* The variables in which a launcher tells a process which rank it is. */
typedef struct {
    const char *rank, *world_size, *local_rank, *local_world_size;
    const char *node; // NULL: nodes are not numbered
    const char *cores; // per rank, if the launcher says
    bool is_mpi; // set by a launcher of MPI
} Launcher;

extern const Launcher launchers[]; // the last one's rank is NULL

/* torchrun (and ddprun), Open MPI's mpirun, Slurm's srun, and PMI (MPICH, Intel MPI), in this
 * order: mpirun inside a Slurm job also passes on Slurm's, the same to every rank. NULL: none
 * of them started this process. */
const Launcher *launcher_find(void);

/* Is the variable set, and not empty, as docker compose may set it? NULL is not. */
bool host_env_is_set(const char *name);

/* The number in a launcher's variable about this machine, such as LOCAL_WORLD_SIZE or
 * OMP_NUM_THREADS; the first of a list ("4,2"); 0 if there is none or it is too large. */
int host_env_count(const char *name);

/* The cores this process may use: its affinity mask, cut by extras/comfort to the CPU quota of its
 * control group and of those above (cgroup v2). */
int host_num_cores(void);

/* How many GPUs CUDA shows this process; 0 in a build without CUDA. After this call a process must
 * not fork ranks: a CUDA context does not survive fork. */
int gpus_visible(void);

/* The same, for a process that starts ranks: a child asks CUDA. -1 in a build without CUDA. */
int gpus_count(void);

#endif
