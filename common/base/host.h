/* host.h - what this machine offers. */
#ifndef COMMON_BASE_HOST_H
#define COMMON_BASE_HOST_H

#include <stddef.h>

/* What the launcher counts, as in LOCAL_WORLD_SIZE or OMP_NUM_THREADS: a number from the
 * environment, of a list ("4,2") the first; 0 where there is none, or too large a one. */
int host_env_count(const char *name);

/* The cores this process may use: its affinity mask, cut to the CPU quota of its control group. */
int host_num_cores(void);

/* The numbers of the cores in the mask, as in "0-3,8", as far as `bytes` reach. Returns text. */
char *host_cores(char *text, size_t bytes);

/* Bytes of memory that can be had without taking any from others, swap included, less a sixteenth
 * of the machine for what nobody asks for in advance; SIZE_MAX where the system does not tell.
 * Limits of control groups are not known here. */
size_t host_free_memory(void);

#define HOST_SPARE_DESCRIPTORS 64 // that a process may hold besides: files, the store, a GPU

/* Sees to it that this process, for so many ranks, may have so many files and connections open:
 * many systems give it 1,024 until it asks for more. Dies where they do not give them, before a
 * connection fails for a reason that seems to be the network's. */
void host_reserve_descriptors(int count, int num_ranks);

#endif
