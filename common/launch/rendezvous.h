/* rendezvous.h - the launchers of all nodes find each other in the store and assign ranks. */
#ifndef COMMON_LAUNCH_RENDEZVOUS_H
#define COMMON_LAUNCH_RENDEZVOUS_H

#include "common/comm/store/store.h"
#include "common/launch/nodes.h"

/* Connects to node 0's store and waits there for all nodes. Dies if one does not come within
 * flags->join_timeout; all nodes die if one was given another --nnodes or --max-restarts. */
Ranks rendezvous(Store *store, const Flags *flags);

#endif
