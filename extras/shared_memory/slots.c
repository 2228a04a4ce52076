/*
 * Short messages, in cache lines that say themselves that they have come.
 *
 * To learn of a message in the ring takes two transfers between two cores, of the index and then of
 * what is behind it. A slot holds a message in lines of 56 bytes, each with the message's number:
 * who waits looks at the next line, and has its bytes as soon as the number. (NCCL's protocol LL128
 * does the same with lines of 120 bytes.) A slot's numbers are never anything else, so they cannot
 * be mistaken for bytes of an older message. As in the ring, one side alone writes each variable,
 * and `taken`, which the writer needs only when all slots are full, has a line of its own.
 */
#include <errno.h>
#include <string.h>

#include "extras/shared_memory/pipe.h"

#define NUM_LOOKS 100 // at a line that has not come: about what it costs to read the time twice

bool slot_fits(const struct iovec part[2])
{
    return part[0].iov_len > 0 && part[0].iov_len + part[1].iov_len <= SLOT_BYTES;
}

ssize_t slot_put(Pipe *pipe, const struct iovec part[2])
{
    if (pipe->put - pipe->seen_taken == NUM_SLOTS)
        pipe->seen_taken = atomic_load(&pipe->theirs->taken);
    if (pipe->put - pipe->seen_taken >= NUM_SLOTS)
        return pipe_nothing(pipe->put - pipe->seen_taken == NUM_SLOTS ? EAGAIN : EPROTO);

    const size_t bytes = part[0].iov_len + part[1].iov_len;
    char message[SLOT_BYTES];
    memcpy(message, part[0].iov_base, part[0].iov_len);
    memcpy(message + part[0].iov_len, part[1].iov_base, part[1].iov_len);
    Line *line = pipe->own->slot[pipe->put++ % NUM_SLOTS];
    for (size_t done = 0; done < bytes; done += LINE_BYTES, line++) {
        memcpy(line->bytes, message + done, LINE_BYTES);
        atomic_store_explicit(&line->message, pipe->put, memory_order_release);
    }
    atomic_thread_fence(memory_order_seq_cst); // before `asleep` is read: see pipe.c
    pipe_ring_bell(pipe);
    return (ssize_t)bytes;
}

bool slot_has_come(const Pipe *pipe)
{
    const Line *line = &pipe->theirs->slot[pipe->taken % NUM_SLOTS][pipe->come / LINE_BYTES];
    return atomic_load(&line->message) == pipe->taken + 1;
}

ssize_t slot_take(Pipe *pipe, struct iovec part[2])
{
    const size_t header_bytes = part[0].iov_len;
    size_t bytes = header_bytes + part[1].iov_len;
    const Line *line = pipe->theirs->slot[pipe->taken % NUM_SLOTS];
    for (int looks = 0; pipe->come < bytes;)
        if (slot_has_come(pipe)) {
            memcpy(pipe->message + pipe->come, line[pipe->come / LINE_BYTES].bytes, LINE_BYTES);
            pipe->come += LINE_BYTES;
        } else if (++looks == NUM_LOOKS) {
            if (pipe->come < header_bytes ||
                memcmp(part[0].iov_base, pipe->message, header_bytes) == 0)
                return pipe_nothing(EAGAIN);
            bytes = header_bytes; // of another message, perhaps a shorter one: no more may come
        }
    pipe->come = 0;
    pipe->taken++;
    // It is the one that is due, as a rule: then nothing waits for a copy of it.
    if (memcmp(part[0].iov_base, pipe->message, header_bytes) != 0)
        memcpy(part[0].iov_base, pipe->message, header_bytes);
    part[1].iov_base = pipe->message + header_bytes;
    return (ssize_t)bytes;
}

/* A writer that finds all slots full sleeps until half of them are free. */
void slot_release(Pipe *pipe)
{
    atomic_store_explicit(&pipe->own->taken, pipe->taken, memory_order_release);
    if (pipe->taken % (NUM_SLOTS / 2) != 0)
        return;
    atomic_thread_fence(memory_order_seq_cst);
    pipe_ring_bell(pipe);
}
