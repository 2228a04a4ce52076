/* tcp_pipe.h - a connection through memory that two ranks of one machine share. */
#ifndef COMMON_COMM_TCP_TCP_PIPE_H
#define COMMON_COMM_TCP_TCP_PIPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define PIPE_BYTES ((size_t)1024 * 1024) // of a ring: stays in the cache of two cores
#define PIPE_ALIGNMENT 128 // of a message; a header is shorter, so it never wraps around
#define PIPE_GRAIN 32 // an index is a multiple of it, and so is a header

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a lock would be of no use between processes");

/* What one rank tells the other. Indices count bytes since the beginning. */
typedef struct {
    _Alignas(PIPE_ALIGNMENT) _Atomic uint64_t written; // into `ring`
    _Alignas(PIPE_ALIGNMENT) _Atomic uint64_t read; // of the other's ring
    _Alignas(PIPE_ALIGNMENT) _Atomic uint32_t asleep; // or about to sleep: send the wake-up byte
    _Alignas(PIPE_ALIGNMENT) char ring[PIPE_BYTES];
} PipeEnd;

/* The layout of the shared memory. */
typedef struct {
    PipeEnd end[2]; // the lower rank's, the higher rank's
} PipeMemory;

/* One rank's view. Its own state is never read from memory that another process can write. */
typedef struct Pipe {
    PipeMemory *memory;
    PipeEnd *own, *theirs;
    int bell; // the connection that wakes the other side
    uint64_t written, read; // our indices; `read` runs ahead of own->read until pipe_release
    uint64_t seen_written, seen_read; // theirs, as last seen
} Pipe;

/* As sendmsg and recvmsg with MSG_DONTWAIT do, for a header (whole, or nothing) and a part of the
 * payload: returns how many bytes were moved, or -1 and EAGAIN. Both sides use the same parts: the
 * end of each is rounded up in the ring. Elements are never split. EPROTO: the indices are invalid.
 * pipe_receive does not copy the payload, but points part[1].iov_base to it, until pipe_release. */
ssize_t pipe_send(Pipe *pipe, const struct iovec part[2]);
ssize_t pipe_receive(Pipe *pipe, struct iovec part[2]);
void pipe_release(Pipe *pipe);

/* Before and after a sleep on the connection, until the other side has written (POLLIN) or read
 * (POLLOUT) something. From pipe_sleep on it rings: a byte comes over the connection; false if
 * there is news already. pipe_wake takes the byte; false if the connection is closed, and nothing
 * came before. */
bool pipe_sleep(Pipe *pipe, short events);
bool pipe_wake(Pipe *pipe, short events);

#endif
