/*
 * Two rings of bytes, one each way, in memory that both ranks see.
 *
 * Each ring has one writer and one reader and needs no lock: the writer alone moves `written`, the
 * reader alone moves `read`, each after it has done its copying. What is to be added up is added
 * straight from the ring. A message begins on a boundary of its own, so that its numbers lie
 * aligned and its header in one piece.
 *
 * Who finds nothing to do goes to sleep on the connection, as without shared memory: so timeouts,
 * notices and dead peers are seen in the one place where they were before. It says so first
 * (`asleep`) and then looks once more; the other side moves its index first and then looks whether
 * somebody sleeps. In whatever order these four happen, one of the two sees the other: nobody
 * sleeps through a message (this is Dekker's protocol; it holds as long as no store may be delayed
 * beyond the load behind it, which sequentially consistent atomics, C's default, guarantee).
 */
#include "common/dist/tcp_pipe.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

// Copied before the other side sees any of it: while it takes one piece, we copy the next.
#define PIECE_BYTES ((size_t)64 * 1024)

static size_t min3(size_t a, size_t b, size_t c)
{
    const size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Of a message that goes on; one that begins is aligned first. */
static uint64_t message_index(uint64_t index, const struct iovec *header)
{
    return header->iov_len == 0 ? index
                                : (index + PIPE_ALIGNMENT - 1) / PIPE_ALIGNMENT * PIPE_ALIGNMENT;
}

/* How much of a payload of `rest` bytes lies or fits at index, if `bytes` are there. */
static size_t payload_piece(uint64_t index, size_t bytes, size_t rest)
{
    const size_t piece = min3(bytes, PIPE_BYTES - index % PIPE_BYTES, PIECE_BYTES);
    return rest <= piece ? rest : piece / PIPE_GRAIN * PIPE_GRAIN;
}

static ssize_t nothing(int reason)
{
    errno = reason;
    return -1;
}

static void ring_bell(Pipe *pipe)
{
    if (atomic_load(&pipe->theirs->asleep) != 0 && atomic_exchange(&pipe->theirs->asleep, 0) != 0)
        // A full connection is a bell that rings already; a closed one is found by who waits on it.
        (void)!send(pipe->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t pipe_send(Pipe *pipe, const struct iovec part[2])
{
    const size_t header_bytes = part[0].iov_len;
    uint64_t index = message_index(pipe->written, &part[0]);
    pipe->seen_read = atomic_load(&pipe->theirs->read);
    if (pipe->written - pipe->seen_read > PIPE_BYTES)
        return nothing(EPROTO);
    const size_t used = index - pipe->seen_read + header_bytes;
    if (used > PIPE_BYTES)
        return nothing(EAGAIN);

    memcpy(pipe->own->ring + index % PIPE_BYTES, part[0].iov_base, header_bytes);
    index += header_bytes;
    const size_t bytes = payload_piece(index, PIPE_BYTES - used, part[1].iov_len);
    memcpy(pipe->own->ring + index % PIPE_BYTES, part[1].iov_base, bytes);
    if (header_bytes + bytes == 0)
        return nothing(EAGAIN);
    pipe->written = index + bytes;
    atomic_store(&pipe->own->written, pipe->written);
    ring_bell(pipe);
    return (ssize_t)(header_bytes + bytes);
}

ssize_t pipe_receive(Pipe *pipe, struct iovec part[2])
{
    const size_t header_bytes = part[0].iov_len;
    uint64_t index = message_index(pipe->read, &part[0]);
    pipe->seen_written = atomic_load(&pipe->theirs->written);
    const uint64_t unread = pipe->seen_written - pipe->read;
    if (unread > PIPE_BYTES)
        return nothing(EPROTO);
    if (unread == 0)
        return nothing(EAGAIN);
    index += header_bytes;
    if (unread < index - pipe->read)
        return nothing(EPROTO); // half a header

    memcpy(part[0].iov_base, pipe->theirs->ring + (index - header_bytes) % PIPE_BYTES,
           header_bytes);
    part[1].iov_base = pipe->theirs->ring + index % PIPE_BYTES;
    const size_t bytes = payload_piece(index, pipe->seen_written - index, part[1].iov_len);
    if (header_bytes + bytes == 0)
        return nothing(EPROTO); // less than a grain, and no end
    pipe->read = index + bytes;
    return (ssize_t)(header_bytes + bytes);
}

void pipe_release(Pipe *pipe)
{
    atomic_store(&pipe->own->read, pipe->read);
    ring_bell(pipe);
}

/* Since we have looked last. */
static bool has_news(const Pipe *pipe, short events)
{
    return events == POLLIN ? atomic_load(&pipe->theirs->written) != pipe->seen_written
                            : atomic_load(&pipe->theirs->read) != pipe->seen_read;
}

bool pipe_sleep(Pipe *pipe, short events)
{
    atomic_store(&pipe->own->asleep, 1);
    return !has_news(pipe, events);
}

bool pipe_wake(Pipe *pipe, short events)
{
    char bytes[64];
    atomic_store(&pipe->own->asleep, 0);
    const ssize_t count = recv(pipe->bell, bytes, sizeof bytes, MSG_DONTWAIT);
    const bool open = count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
    return open || has_news(pipe, events);
}
