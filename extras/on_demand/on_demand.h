/* on_demand.h - which ranks are connected from the start. */
#ifndef EXTRAS_ON_DEMAND_ON_DEMAND_H
#define EXTRAS_ON_DEMAND_ON_DEMAND_H

#include "common/comm/tcp/tcp_mesh.h"

/* Is the peer, another rank, one of those that this rank is always connected to? */
bool on_demand_is_neighbor(const Mesh *mesh, int peer);

#endif
