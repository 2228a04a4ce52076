/* rendezvous.h - the launchers of all nodes meet in the store and share out the ranks. */
#ifndef COMMON_LAUNCH_RENDEZVOUS_H
#define COMMON_LAUNCH_RENDEZVOUS_H

#include "common/dist/store.h"
#include "common/launch/nodes.h"

/* Connects to node 0's store and waits there for all nodes. Dies where one does not come within
 * flags->join_timeout; and on all nodes, where one was given another --nnodes or --max-restarts. */
Ranks rendezvous(Store *store, const Flags *flags);

#endif
