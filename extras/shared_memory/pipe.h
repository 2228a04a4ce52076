/* pipe.h - a connection through memory that two ranks of one machine share. */
#ifndef EXTRAS_SHARED_MEMORY_PIPE_H
#define EXTRAS_SHARED_MEMORY_PIPE_H

#include <stdatomic.h>

#include "common/comm/tcp/tcp_mesh.h"

#define PIPE_BYTES ((size_t)1024 * 1024) // size of a ring: stays in the cache of two cores

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock would be of no use between processes");

/* What one rank shows the other. Indices count bytes since the beginning. */
typedef struct {
    _Alignas(PIPE_ALIGNMENT) _Atomic uint64_t written; // index in own `ring`
    _Alignas(PIPE_ALIGNMENT) _Atomic uint64_t read; // index in the other's ring
    _Alignas(PIPE_ALIGNMENT) _Atomic uint32_t asleep; // or about to be: send the wake-up byte
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
} Pipe;

/* Call pipe_sleep before waiting on the bell until the other side has written (POLLIN) or read
 * (POLLOUT) something, upon which it sends a byte; false if it has done so already: do not wait.
 * Call pipe_wake afterwards: it takes the byte; false if the bell is closed, and nothing came. */
bool pipe_sleep(Pipe *pipe, short events);
bool pipe_wake(Pipe *pipe, short events);

#endif
