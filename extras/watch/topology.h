/* topology.h - --show-topology: which rank is where. */
#ifndef EXTRAS_WATCH_TOPOLOGY_H
#define EXTRAS_WATCH_TOPOLOGY_H

#include "common/comm/process_group.h"

/* Rank 0 lists all ranks: node, host, device and cores. Each of MPI's ranks prints its own line.
 * Dies if a rank does not say where it is within the group's timeout. Collective. */
void topology_print(const ProcessGroup *pg);

#endif
