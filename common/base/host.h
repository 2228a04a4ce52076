/* host.h - what this machine offers a process: cores and memory. */
#ifndef COMMON_BASE_HOST_H
#define COMMON_BASE_HOST_H

#include <stddef.h>

/* What the launcher says about this machine in a variable such as LOCAL_WORLD_SIZE or
 * OMP_NUM_THREADS: a number, of a list ("4,2") the first; 0 if there is none or it is too large. */
int host_env_count(const char *name);

/* The cores this process may use: its affinity mask, cut to the CPU quota of its control
 * group and of those above (cgroup v2; extras/comfort). */
int host_num_cores(void);

/* Bytes of memory available without displacing other processes, swap included, less a sixteenth of
 * the machine for what nobody reserves in advance; SIZE_MAX where the system does not tell. Ignores
 * the limits of control groups. */
size_t host_free_memory(void);

#endif
