/*
 * Two rings of bytes, one each way, in memory that both ranks see. Short messages go through slots
 * beside them (slots.c).
 *
 * Each ring has one writer and one reader and needs no lock: only the writer advances `written`,
 * only the reader `read`, each after copying. Reductions read straight from the ring. A message
 * begins at an aligned index, so that its numbers are aligned and its header is contiguous.
 *
 * Looking at the other side's index takes its cache line away from the core that advances it, so a
 * side looks only when what it saw last is not enough for the whole message.
 *
 * A side with nothing to do sleeps on the connection, as without shared memory, so timeouts,
 * notices and dead peers are handled in one place. It sets `asleep` and then checks the index once
 * more; the other side advances its index and then checks `asleep`. In any order of these four, one
 * side sees the other, and no wake-up is lost. (This is Dekker's protocol: no store may be
 * reordered after the load that follows it, which sequentially consistent atomics, C's default,
 * guarantee.)
 */
#include "extras/shared_memory/pipe.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

// Published piece by piece: while the other side reads one, we copy the next.
#define PIECE_BYTES ((size_t)64 * 1024)

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns how much of a payload of `rest` bytes is contiguous at index, of `bytes` available. */
static size_t piece_bytes(uint64_t index, size_t bytes, size_t rest)
{
    return min(min(bytes, rest), min(PIPE_BYTES - index % PIPE_BYTES, PIECE_BYTES));
}

/* Returns the index after a piece; after the last piece, that of the next message. */
static uint64_t index_behind(uint64_t index, size_t piece, size_t rest)
{
    index += piece;
    return piece < rest ? index : (index + PIPE_ALIGNMENT - 1) / PIPE_ALIGNMENT * PIPE_ALIGNMENT;
}

/* Returns the free bytes of our ring, as last seen, up to a boundary, since the end of a message is
 * rounded up. */
static size_t room_of(const Pipe *pipe)
{
    const uint64_t limit = (pipe->seen_read + PIPE_BYTES) / PIPE_ALIGNMENT * PIPE_ALIGNMENT;
    return (size_t)(limit - pipe->written);
}

ssize_t pipe_nothing(int reason)
{
    errno = reason;
    return -1;
}

void pipe_ring_bell(Pipe *pipe)
{
    if (atomic_load(&pipe->theirs->asleep) != 0 && atomic_exchange(&pipe->theirs->asleep, 0) != 0)
        // If the connection is full, a wake-up is pending; a closed one is noticed by mesh_wait.
        (void)!send(pipe->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t pipe_send(Pipe *pipe, const struct iovec part[2])
{
    const size_t header_bytes = part[0].iov_len, rest = part[1].iov_len;
    if ((pipe->puts = slot_fits(part)))
        return slot_put(pipe, part);
    if (room_of(pipe) <= header_bytes + rest)
        pipe->seen_read = atomic_load(&pipe->theirs->read);
    const size_t room = room_of(pipe);
    if (room > PIPE_BYTES)
        return pipe_nothing(EPROTO);
    if (room <= header_bytes)
        return pipe_nothing(EAGAIN);

    const uint64_t index = pipe->written + header_bytes;
    const size_t piece = piece_bytes(index, room - header_bytes, rest);
    memcpy(pipe->own->ring + pipe->written % PIPE_BYTES, part[0].iov_base, header_bytes);
    pipe_copy(pipe, pipe->own->ring + index % PIPE_BYTES, part[1].iov_base, piece);
    pipe->written = index_behind(index, piece, rest);
    pipe_publish(pipe, piece);
    pipe_ring_bell(pipe);
    return (ssize_t)(header_bytes + piece);
}

/* If a message has come by the other way than the one that is due, its length is wrong. The caller
 * gets its header, which names it. */
ssize_t pipe_receive(Pipe *pipe, struct iovec part[2])
{
    const size_t header_bytes = part[0].iov_len, rest = part[1].iov_len;
    if ((pipe->takes = slot_fits(part))) {
        const ssize_t taken = slot_take(pipe, part);
        if (taken >= 0 || atomic_load(&pipe->theirs->written) == pipe->read || slot_has_come(pipe))
            return taken;
    }
    if (pipe->seen_written - pipe->read < header_bytes + rest)
        pipe->seen_written = atomic_load(&pipe->theirs->written);
    const size_t unread = (size_t)(pipe->seen_written - pipe->read);
    if (unread == 0 && header_bytes > 0 && slot_has_come(pipe) &&
        atomic_load(&pipe->theirs->written) == pipe->read)
        return slot_take(pipe, (struct iovec[]){ part[0], { 0 } });
    if (unread == 0)
        return pipe_nothing(EAGAIN);
    if (unread > PIPE_BYTES || unread % PIPE_GRAIN != 0 || unread < header_bytes)
        return pipe_nothing(EPROTO);

    const uint64_t index = pipe->read + header_bytes;
    const size_t piece = piece_bytes(index, unread - header_bytes, rest);
    memcpy(part[0].iov_base, pipe->theirs->ring + pipe->read % PIPE_BYTES, header_bytes);
    part[1].iov_base = pipe->theirs->ring + index % PIPE_BYTES;
    pipe->read = index_behind(index, piece, rest);
    return (ssize_t)(header_bytes + piece);
}

void pipe_release(Pipe *pipe)
{
    if (pipe->takes) {
        slot_release(pipe);
        return;
    }
    atomic_store(&pipe->own->read, pipe->read);
    pipe_ring_bell(pipe);
}

/* Returns true if the other side has written or read since the last check. */
static bool has_news(const Pipe *pipe, short events)
{
    if (events == POLLIN)
        return slot_has_come(pipe) || atomic_load(&pipe->theirs->written) != pipe->seen_written;
    return pipe->puts ? atomic_load(&pipe->theirs->taken) != pipe->seen_taken
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
