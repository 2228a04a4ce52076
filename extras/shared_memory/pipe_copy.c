/*
 * Copying into the ring, through the caches or past them.
 *
 * Where two cores share a cache, a copy stays in it until the other core reads it. Where they do
 * not, each line must first be taken back from the other core's cache. Then a copy past the caches,
 * to memory, costs a fourth, and the other core has it twice as soon. Which of the two it is shows
 * a store to a line that the other core looks at: with reading the time it takes 60 ns or 150 (Zen
 * 3). It may change while a job runs, since systems move threads, and hosts move virtual machines,
 * so it is measured again and again.
 */
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "common/base/log.h"
#include "extras/shared_memory/pipe.h"

#define LEAST_BYTES 2048 // of a piece that is worth it
#define FAR_SECONDS 85e-9 // of a store alone: reading the time takes 20 ns, or much more
#define MOST_SURE 4 // so many measurements more on one side than on the other are enough

/* `to` is aligned (PIPE_GRAIN). */
static void copy_past_caches(char *to, const char *from, size_t bytes)
{
    size_t done = 0;
#ifdef __SSE2__
    for (; done + sizeof(__m128i) <= bytes; done += sizeof(__m128i))
        _mm_stream_si128((__m128i *)(to + done), _mm_loadu_si128((const __m128i *)(from + done)));
    _mm_sfence(); // the store of `written` makes them visible, and must not overtake them
#endif
    memcpy(to + done, from + done, bytes - done);
}

void pipe_copy(const Pipe *pipe, void *to, const void *from, size_t bytes)
{
    if (pipe->far > 0 && bytes >= LEAST_BYTES)
        copy_past_caches(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

void pipe_publish(Pipe *pipe, size_t bytes)
{
    if (bytes < LEAST_BYTES || pipe->pieces++ % 8 != 0) {
        atomic_store(&pipe->own->written, pipe->written);
        return;
    }
    atomic_thread_fence(memory_order_seq_cst); // so that the copy is not measured, too
    const double before = seconds_now(), begin = seconds_now(), clock = begin - before;
    atomic_store(&pipe->own->written, pipe->written);
    if (seconds_now() - begin - clock > FAR_SECONDS)
        pipe->far += pipe->far < MOST_SURE;
    else
        pipe->far -= pipe->far > -MOST_SURE;
}
