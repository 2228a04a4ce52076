/* numa.h - ddprun --numa-binding: which cores each rank of this node may use. */
#ifndef WATCH_NUMA_H
#define WATCH_NUMA_H

#include <sched.h>

#include "launcher/launch.h"

/* Where the ranks of a node are. A place is a GPU that the ranks see, or, if these are fewer than
 * the ranks, a rank. Local rank r has place r. */
typedef struct {
    const char *sys; // /sys, or a folder that looks like it
    cpu_set_t allowed; // cores that this process may use
    cpu_set_t nodes; // NUMA nodes that have such cores
    int num_places;
    int node_of[FLAGS_MAX_WORKERS]; // indexed by place
} NumaMap;

/* Reads the map from the folder `sys`. Usage error if there are not two nodes, CUDA_VISIBLE_DEVICES
 * has names, or a rank's GPU is on a node that has no cores for it. */
void numa_read(NumaMap *map, const char *sys, const cpu_set_t *allowed, int num_ranks);

/* Returns the mode with that name; usage error if there is none. */
int numa_mode(const char *name);

/* Chooses a local rank's cores in that mode. Usage error if there are too few. */
void numa_choose(const NumaMap *map, int mode, int local_rank, cpu_set_t *chosen);

/* Chooses for all ranks, from /sys, or for a test from the folder in DDP_SYS. Does nothing without
 * --numa-binding. */
void numa_plan(const Flags *flags);

/* Binds this process to the chosen cores: a plain system call, after fork. */
bool numa_bind(int local_rank);

#endif
