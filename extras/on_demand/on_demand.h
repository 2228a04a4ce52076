/* on_demand.h - which ranks are connected from the start. */
#ifndef EXTRAS_ON_DEMAND_ON_DEMAND_H
#define EXTRAS_ON_DEMAND_ON_DEMAND_H

#include "common/comm/tcp/tcp_mesh.h"

/* Returns true if the peer, another rank, is one that this rank is connected to from the start. */
bool on_demand_is_neighbor(const Mesh *mesh, int peer);

#endif
