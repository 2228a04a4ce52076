/*
 * Events: positions in the queues of streams, and the time at which the device reached them. Its
 * clock is not the host's (stand_in.h), so that confusing the two is detected.
 */
#include <stdlib.h>
#include <time.h>

#include "queue.h"

#define CLOCK_SET 1e6 // seconds behind the host's clock
#define CLOCK_RATE 1.005 // device seconds per host second

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    LOCKED;
    *event = calloc(1, sizeof **event);
    (*event)->timed = (flags & cudaEventDisableTiming) == 0;
    (*event)->blocks = (flags & cudaEventBlockingSync) != 0;
    stand_in_count.events_made++;
    return stand_in_open();
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    LOCKED;
    if (event->destroyed)
        stand_in_fail("an event is destroyed twice");
    event->destroyed = true; // its memory stays, so that a later use is detected
    return cudaSuccess;
}

static void note_time(void *arguments)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    cudaEvent_t event = *(cudaEvent_t *)arguments;
    event->seconds = CLOCK_SET + CLOCK_RATE * ((double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle)
{
    LOCKED;
    struct CUstream_st *stream = queue_stream(handle);
    if (event->destroyed)
        stand_in_fail("a destroyed event is recorded");
    stand_in_count.timed_records += event->timed;
    if (event->timed && stream->recorder == NULL)
        queue_append(stream, &(Work){ .name = "an event",
                                      .run = note_time,
                                      .arguments = &event,
                                      .bytes = sizeof event });
    event->stream = stream->recorder != NULL ? stream->recorder : stream;
    event->count = event->stream->issued;
    return cudaSuccess;
}

static cudaError_t event_refused(cudaEvent_t event)
{
    if (event->destroyed)
        stand_in_fail("a destroyed event is waited for");
    if (event->stream != NULL && event->stream->graph != NULL) {
        queue_invalidate(event->stream->graph);
        return stand_in_error(cudaErrorCapturedEvent);
    }
    return stand_in_capturing() ? stand_in_error(cudaErrorStreamCaptureUnsupported)
                                : stand_in_open();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    LOCKED;
    const cudaError_t error = event_refused(event);
    stand_in_count.waits++;
    stand_in_count.spins += !event->blocks;
    if (error == cudaSuccess && event->stream != NULL)
        queue_run_until(event->stream, event->count);
    return error;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    stand_in_hang();
    LOCKED;
    const cudaError_t error = event_refused(event);
    if (error != cudaSuccess || event->stream == NULL)
        return error;
    queue_step(); // time passes
    stand_in_memory_close();
    return event->stream->done >= event->count ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    LOCKED;
    const cudaEvent_t both[] = { from, to };
    for (int i = 0; i < 2; i++) {
        const cudaError_t error = event_refused(both[i]);
        if (error != cudaSuccess)
            return error;
        if (!both[i]->timed || both[i]->stream == NULL)
            return stand_in_error(cudaErrorInvalidResourceHandle);
        if (both[i]->stream->done < both[i]->count)
            return stand_in_error(cudaErrorNotReady); // a careless caller gets it later
    }
    *milliseconds = (float)(1e3 * (to->seconds - from->seconds));
    return cudaSuccess;
}
