/* tcp_shared.h - connects ranks on one machine through shared memory. */
#ifndef COMMON_COMM_TCP_TCP_SHARED_H
#define COMMON_COMM_TCP_TCP_SHARED_H

#include "common/comm/tcp/tcp_mesh.h"

/* Gives every peer on this machine a pipe, unless this or the other rank's environment has
 * DDP_SHM_DISABLE=1, or the system does not let them. The data connections must exist.
 * Collective. */
void shared_init(Mesh *mesh);
void shared_free(Mesh *mesh);

#endif
