/* rendezvous.h - the launchers of all nodes meet in the store and share out the ranks. */
#ifndef COMMON_LAUNCH_RENDEZVOUS_H
#define COMMON_LAUNCH_RENDEZVOUS_H

#include "common/dist/store.h"
#include "common/launch/flags.h"

typedef struct {
    int first_rank, world_size; // of this node's ranks; of the job
    int first_role_rank, role_world_size; // the same among the ranks of this node's role
} Ranks;

/* Connects to node 0's store and waits there for all nodes. Dies where one does not come within
 * flags->join_timeout; and on all nodes, where one was given another --nnodes. */
Ranks rendezvous(Store *store, const Flags *flags);

#endif
