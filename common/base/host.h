/* host.h - the cores and GPUs that a process may use, and the variables of its launcher. */
#ifndef COMMON_BASE_HOST_H
#define COMMON_BASE_HOST_H

#include <stdbool.h>

/* The variables in which a launcher passes a process its rank. */
typedef struct {
    const char *rank, *world_size, *local_rank, *local_world_size;
    const char *node; // NULL if nodes are not numbered
    const char *cores; // cores per rank, if the launcher sets it
    bool is_mpi; // true for a launcher of MPI
} Launcher;

extern const Launcher launchers[]; // the last one's rank is NULL

/* Returns the launcher of this process, or NULL: the first whose rank and world size are set, and
 * preferably its local rank. The order counts, as mpirun in a Slurm job passes on Slurm's, too. */
const Launcher *launcher_find(void);

/* Returns whether the variable is set and not empty (docker compose may set it so). NULL is not. */
bool host_env_is_set(const char *name);

/* Returns the number in a launcher's variable about this machine, such as LOCAL_WORLD_SIZE or
 * OMP_NUM_THREADS; the first of a list ("4,2"); 0 if there is none or it is too large. */
int host_env_count(const char *name);

/* Returns how many cores this process may use: its affinity mask, cut by extras/comfort to the CPU
 * quota of its control group and of those above (cgroup v2). */
int host_num_cores(void);

/* Returns how many GPUs CUDA shows this process; 0 in a build without CUDA. After this call a
 * process must not fork ranks, because a CUDA context does not survive fork. */
int gpus_visible(void);

/* Does the same for a process that starts ranks: a child asks CUDA. -1 in a build without CUDA. */
int gpus_count(void);

#endif
