/* tcp_collectives.h - the algorithms of the tcp backend. Collective, all of them. */
#ifndef COMMON_COMM_TCP_TCP_COLLECTIVES_H
#define COMMON_COMM_TCP_TCP_COLLECTIVES_H

#include "common/comm/tcp/tcp_mesh.h"

/* tcp_ring.c: every rank sends to the next and receives from the one before. */
void ring_all_reduce(Mesh *mesh, const Collective *collective);
void ring_reduce_scatter(Mesh *mesh, const Collective *collective);
void ring_all_gather(Mesh *mesh, const Collective *collective);

/* tcp_doubling.c: few steps, for short messages. */
void doubling_all_reduce(Mesh *mesh, const Collective *collective);

/* tcp_halving.c: the same tree for any count and type; for 2, 4, 8, ... ranks. */
void halving_all_reduce(Mesh *mesh, const Collective *collective);

/* tcp_broadcast.c: the tree for short messages, the chain for long ones. */
void tree_broadcast(Mesh *mesh, const Collective *collective);
void chain_broadcast(Mesh *mesh, const Collective *collective);

/* tcp_direct.c: the root and each other rank in turn. */
void direct_reduce(Mesh *mesh, const Collective *collective);
void direct_gather(Mesh *mesh, const Collective *collective);
void direct_scatter(Mesh *mesh, const Collective *collective);

#endif
