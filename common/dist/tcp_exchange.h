/* tcp_exchange.h - the one step that all algorithms of the tcp backend are made of. */
#ifndef COMMON_DIST_TCP_EXCHANGE_H
#define COMMON_DIST_TCP_EXCHANGE_H

#include "common/dist/tcp_mesh.h"

/* A message to one rank and a message from one (perhaps the same, perhaps NOBODY), as the group
 * whose call is in progress counts them. */
typedef struct {
    int to;
    const void *out;
    size_t out_bytes;
    int from;
    void *in;
    size_t in_bytes;
    const void *addend; // NULL: in[] is what arrives. Else in[i] = arriving[i] op addend[i]
} Exchange;

/* Sends and receives at the same time; returns when both is done. */
void exchange(Mesh *mesh, const Exchange *x);

/* One direction alone. */
void message_send(Mesh *mesh, int to, const void *out, size_t bytes);
void message_receive(Mesh *mesh, int from, void *in, size_t bytes);

#endif
