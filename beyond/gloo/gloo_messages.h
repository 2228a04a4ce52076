/*
 * gloo_messages.h - the messages of a call, over one connection to each rank.
 *
 * An algorithm (gloo.c) posts messages and waits for them; what arrives meanwhile for later calls
 * is kept. A rank that this call does not need may be gone. Errors end the process with one line.
 */
#ifndef BEYOND_GLOO_GLOO_MESSAGES_H
#define BEYOND_GLOO_GLOO_MESSAGES_H

#include "common/comm/tcp/tcp_mesh.h"

#define GLOO_WINDOW 2 // messages to a rank, and from it, that may be on their way in a call
#define GLOO_MAX_READY 1024 // READYs of a rank for calls that this one has not made yet

typedef enum { GLOO_DATA = 1, GLOO_SEND_READY, GLOO_RECV_READY } GlooOpcode;

/* What precedes every message, in the sender's byte order. */
typedef struct {
    uint64_t nbytes; // of header and payload
    uint64_t opcode;
    uint64_t slot; // the call
    uint64_t offset;
    uint64_t length; // bytes of the payload, which a READY announces
    uint64_t roffset;
} GlooHeader;

/* A message to send, or to receive. */
typedef struct {
    int peer;
    char *data;
    size_t bytes;
    bool complete;
    bool adds; // what arrives is added to `data`
} GlooMessage;

/* A connection. The counts are of the call in progress: message i is in entry i % GLOO_WINDOW. */
typedef struct {
    GlooMessage outgoing[GLOO_WINDOW], incoming[GLOO_WINDOW];
    unsigned to_send, wanted, sent; // posted here; of these also posted there; done
    unsigned to_receive, received;
    GlooHeader readies[2 * GLOO_WINDOW]; // to be sent
    size_t readies_bytes;
    GlooHeader out, in; // of the DATA that is being sent, and of what arrives
    size_t out_bytes, in_bytes; // how much of it, payload included
    GlooHeader ready[GLOO_MAX_READY]; // have arrived, and not been used
    int num_ready;
} GlooPeer;

typedef struct {
    Wire wire; // first: it is the group's pg->wire
    uint64_t slot; // the call in progress
    GlooPeer *peer; // indexed by rank
    struct pollfd *polled;
} Gloo;

/* Begins a call with this slot. */
void gloo_begin(Mesh *mesh, uint64_t slot);

/* Post a message, and return it: it is valid until GLOO_WINDOW more have been posted. */
GlooMessage *gloo_send(Mesh *mesh, int to, const void *data, size_t bytes);
GlooMessage *gloo_receive(Mesh *mesh, int from, void *data, size_t bytes);
GlooMessage *gloo_receive_adding(Mesh *mesh, int from, void *data, size_t bytes); // from one rank

/* Moves messages until this one is complete; returns at once if it is NULL. */
void gloo_await(Mesh *mesh, const GlooMessage *message);

#endif
