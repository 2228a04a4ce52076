/* pipe.h - a connection through memory that two ranks of one machine share. */
#ifndef EXTRAS_SHARED_MEMORY_PIPE_H
#define EXTRAS_SHARED_MEMORY_PIPE_H

#include <stdatomic.h>

#include "common/comm/tcp/tcp_mesh.h"

#define PIPE_BYTES ((size_t)1024 * 1024) // size of a ring: stays in the cache of two cores
#define NUM_SLOTS 16
#define LINE_BYTES ((size_t)56) // of a message, in a cache line of 64
#define SLOT_BYTES (7 * LINE_BYTES) // a message up to here, with its header, goes through a slot

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock would be of no use between processes");

/* A cache line that says itself that it has come (slots.c). */
typedef struct {
    _Alignas(64) char bytes[LINE_BYTES];
    _Atomic uint64_t message; // number of the message that it is a part of, from 1 on
} Line;

/* What one rank shows the other. Indices count bytes since the beginning. */
typedef struct {
    _Alignas(PIPE_ALIGNMENT) _Atomic uint64_t written; // index in own `ring`
    _Alignas(PIPE_ALIGNMENT) _Atomic uint64_t read; // index in the other's ring
    _Alignas(PIPE_ALIGNMENT) _Atomic uint32_t asleep; // or about to be: send the wake-up byte
    _Alignas(PIPE_ALIGNMENT) _Atomic uint64_t taken; // number of messages out of the other's slots
    _Alignas(PIPE_ALIGNMENT) Line slot[NUM_SLOTS][SLOT_BYTES / LINE_BYTES];
    _Alignas(PIPE_ALIGNMENT) char ring[PIPE_BYTES];
} PipeEnd;

/* The layout of the shared memory. */
typedef struct {
    PipeEnd end[2]; // the lower rank's, then the higher rank's
} PipeMemory;

/* One rank's view. Its own state is never read from memory that another process can write. */
typedef struct Pipe {
    PipeMemory *memory;
    PipeEnd *own, *theirs;
    int bell; // the connection that wakes the other side
    uint64_t written, read; // our indices; `read` runs ahead of own->read until pipe_release
    uint64_t seen_written, seen_read; // the other side's indices, as last seen
    uint64_t put, seen_taken; // our messages through slots, and of these taken, as last seen
    uint64_t taken; // their messages through slots that we took
    size_t come; // bytes of their next one
    bool puts, takes; // whether the message in transfer goes through a slot, in each direction
    _Alignas(64) char message[SLOT_BYTES]; // their last one
    unsigned pieces; // in the ring so far, of those that are worth a measurement
    int far; // above 0 if the other rank's core shares no cache with ours (pipe_copy.c)
} Pipe;

/* Call pipe_sleep before waiting on the bell until the other side has written (POLLIN) or read
 * (POLLOUT) something, upon which it sends a byte; false if it has done so already: do not wait.
 * Call pipe_wake afterwards: it takes the byte; false if the bell is closed, and nothing came. */
bool pipe_sleep(Pipe *pipe, short events);
bool pipe_wake(Pipe *pipe, short events);

/* Parts of pipe_send, pipe_receive and pipe_release, for messages that fit into a slot. */
bool slot_fits(const struct iovec part[2]);
ssize_t slot_put(Pipe *pipe, const struct iovec part[2]);
ssize_t slot_take(Pipe *pipe, struct iovec part[2]);
void slot_release(Pipe *pipe);
bool slot_has_come(const Pipe *pipe); // whether there is more of their next one

ssize_t pipe_nothing(int reason); // sets errno, and returns -1
void pipe_ring_bell(Pipe *pipe); // wakes the other side, if it is asleep

/* Copies a piece into the ring; publishes a piece that ends at `written`. */
void pipe_copy(const Pipe *pipe, void *to, const void *from, size_t bytes);
void pipe_publish(Pipe *pipe, size_t bytes);

#endif
