/* topology.h - which rank is where: --show-topology, and TensorBoard's texts. */
#ifndef EXTRAS_WATCH_TOPOLOGY_H
#define EXTRAS_WATCH_TOPOLOGY_H

#include "common/comm/process_group.h"
#include "extras/watch/peers.h"

/* Returns node, host, device and cores of each rank, PLACE_BYTES each. Free them. Collective. */
char *topology_gather(ProcessGroup *pg);

void topology_print(ProcessGroup *pg); // lists them on rank 0; collective

#endif
