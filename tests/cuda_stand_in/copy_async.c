/*
 * Copies from memory into shared memory that a thread starts, commits in groups and waits for. Each
 * happens at once or as late as allowed, at random, so that reading without a wait and a barrier,
 * and copying over numbers that others still read, both give wrong results.
 */
#include <string.h>

#include "stand_in.h"

enum { MAX_THREADS = 1024, MAX_COPIES = 64 }; // MAX_COPIES: a thread's copies at a time

typedef struct {
    void *to;
    const void *from;
    size_t bytes;
    int group;
} Copy;

typedef struct {
    Copy copies[MAX_COPIES];
    int num_copies;
    int group; // group of the uncommitted copies
} Thread;

static Thread threads[MAX_THREADS];
static const StandInLaunch *launch;

static Thread *this_thread(void)
{
    return &threads[threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)];
}

void stand_in_copies_begin(const StandInLaunch *started)
{
    launch = started;
    for (Thread *thread = threads; thread < threads + MAX_THREADS; thread++)
        thread->num_copies = thread->group = 0;
}

void stand_in_copy_async(void *to, const void *from, size_t bytes)
{
    Thread *thread = this_thread();
    if ((bytes != 4 && bytes != 8 && bytes != 16) || (uintptr_t)to % bytes != 0 ||
        (uintptr_t)from % bytes != 0)
        stand_in_fail("%s: an asynchronous copy of %zu bytes that are not aligned to their size",
                      launch->name, bytes);
    if ((char *)to < launch->shared_begin || (char *)to + bytes > launch->shared_end)
        stand_in_fail("%s: an asynchronous copy that does not go into shared memory", launch->name);
    if (thread->num_copies == MAX_COPIES)
        stand_in_fail("%s: a thread with more than %d copies that it has not waited for",
                      launch->name, MAX_COPIES);
    if (stand_in_random(2) == 0)
        memcpy(to, from, bytes);
    else
        thread->copies[thread->num_copies++] = (Copy){ to, from, bytes, thread->group };
}

void stand_in_copy_commit(void)
{
    this_thread()->group++;
}

void stand_in_copy_wait(int newest)
{
    Thread *thread = this_thread();
    int kept = 0;
    for (int i = 0; i < thread->num_copies; i++) {
        const Copy copy = thread->copies[i];
        if (copy.group < thread->group - newest)
            memcpy(copy.to, copy.from, copy.bytes);
        else
            thread->copies[kept++] = copy;
    }
    thread->num_copies = kept;
}
