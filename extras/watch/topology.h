/* topology.h - --show-topology: which rank is where. */
#ifndef EXTRAS_WATCH_TOPOLOGY_H
#define EXTRAS_WATCH_TOPOLOGY_H

#include "common/comm/process_group.h"

/* Lists all ranks on rank 0: node, host, device and cores. Each of MPI's ranks prints its own line.
 * Dies if a rank does not report its place within the group's timeout. Collective. */
void topology_print(const ProcessGroup *pg);

#endif
