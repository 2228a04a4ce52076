/* tcp_exchange.h - the step that all algorithms of the tcp backend consist of. */
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

#endif
