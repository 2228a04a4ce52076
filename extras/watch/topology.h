/* topology.h - which rank is where: --show-topology, and TensorBoard's texts. */
#ifndef EXTRAS_WATCH_TOPOLOGY_H
#define EXTRAS_WATCH_TOPOLOGY_H

#include "common/comm/process_group.h"
#include "extras/watch/peers.h"

/* Writes where this rank is: node, host, device and cores. Local. */
void topology_place(const ProcessGroup *pg, char line[PLACE_BYTES]);

/* Lists all ranks on rank 0: node, host, device and cores. Each of MPI's ranks prints its own line.
 * Dies if a rank does not report its place within the group's timeout. Collective. */
void topology_print(const ProcessGroup *pg);

#endif
