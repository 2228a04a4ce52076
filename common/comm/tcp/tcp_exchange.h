/* tcp_exchange.h - how the tcp backend moves data: one exchange, and the algorithms made of it. */
#ifndef COMMON_COMM_TCP_TCP_EXCHANGE_H
#define COMMON_COMM_TCP_TCP_EXCHANGE_H

#include "common/comm/tcp/tcp_mesh.h"

/* A message to one rank and a message from one (either may be NOBODY), numbered as in the group of
 * the call in progress. */
typedef struct {
    int to;
    const void *out;
    size_t out_bytes;
    int from;
    void *in;
    size_t in_bytes;
    const void *addend; // NULL: in[] is what arrives. Else in[i] = arriving[i] op addend[i]
} Exchange;

/* Sends and receives at the same time; returns when both are done. */
void exchange(Mesh *mesh, const Exchange *x);

/* One direction alone. */
void message_send(Mesh *mesh, int to, const void *out, size_t bytes);
void message_receive(Mesh *mesh, int from, void *in, size_t bytes);

/* tcp_ring.c: every rank sends to the next and receives from the one before. Collective, as all
 * below. */
void ring_all_reduce(Mesh *mesh, const Collective *collective);
void ring_reduce_scatter(Mesh *mesh, const Collective *collective);
void ring_all_gather(Mesh *mesh, const Collective *collective);

/* tcp_trees.c. Doubling takes few steps, for short messages; halving sums by the same tree for any
 * count and type, for 2, 4, 8, ... ranks; the tree is for short messages, the chain for long ones;
 * in the direct one the root exchanges with one rank after the other. */
void doubling_all_reduce(Mesh *mesh, const Collective *collective);
void halving_all_reduce(Mesh *mesh, const Collective *collective);
void tree_broadcast(Mesh *mesh, const Collective *collective);
void chain_broadcast(Mesh *mesh, const Collective *collective);
void direct_collective(Mesh *mesh, const Collective *collective); // reduce, gather, scatter

#endif
