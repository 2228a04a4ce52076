/*
 * Streams: queues of work that is not done before a thread waits for it. Then the next operation of
 * a random stream that is ready is done, until the awaited work is complete.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"

static struct CUstream_st *streams; // all streams ever created
static struct CUstream_st *default_streams[MAX_GPUS];
static bool running;
static pthread_t runner; // while running

static struct CUstream_st *stream_new(int device, bool blocking)
{
    struct CUstream_st *stream = calloc(1, sizeof *stream);
    *stream = (struct CUstream_st){ .next = streams, .device = device, .blocking = blocking };
    stream->last = &stream->first;
    return streams = stream;
}

struct CUstream_st *queue_stream(cudaStream_t stream)
{
    const int device = stand_in_device();
    if (stream == NULL && default_streams[device] == NULL)
        default_streams[device] = stream_new(device, true);
    if (stream == NULL)
        return default_streams[device];
    for (struct CUstream_st *known = streams; known != NULL; known = known->next)
        if (known == stream && !known->destroyed)
            return stream;
    stand_in_fail("there is no stream %p, or no more", (void *)stream);
}

void queue_append(struct CUstream_st *stream, const Work *work)
{
    Op *op = aligned_alloc(64, (sizeof *op + work->bytes + 63) / 64 * 64);
    *op = (Op){ .name = work->name, .run = work->run, .ready = work->ready, .drop = work->drop };
    memcpy(op->arguments, work->arguments, work->bytes);
    *stream->last = op;
    stream->last = &op->next;
    stream->issued++;
}

void queue_wait(struct CUstream_st *stream, const struct CUstream_st *after, uint64_t count)
{
    queue_append(stream, &(Work){ .name = "wait", .arguments = "" });
    Op *op = (Op *)((char *)stream->last - offsetof(Op, next));
    op->after = after;
    op->count = count;
}

/* Makes the default stream and blocking ones wait for each other. */
static void order_with_default(struct CUstream_st *stream)
{
    struct CUstream_st *by_default = default_streams[stream->device];
    for (struct CUstream_st *other = streams; stream->blocking && other != NULL;
         other = other->next)
        if (other != stream && other->blocking && other->device == stream->device &&
            (stream == by_default || other == by_default) && other->issued > other->done)
            queue_wait(stream, other, other->issued);
}

void stand_in_push(cudaStream_t handle, const Work *work)
{
    struct CUstream_st *stream = queue_stream(handle);
    if (running && pthread_equal(runner, pthread_self()))
        stand_in_fail("a host function in a stream calls CUDA");
    if (stream->recorder == NULL)
        order_with_default(stream);
    queue_append(stream->recorder != NULL ? stream->recorder : stream, work);
}

void queue_end_recording(const struct CUgraph_st *graph)
{
    for (struct CUstream_st *stream = streams; stream != NULL; stream = stream->next)
        if (stream->recorder != NULL && stream->recorder->graph == graph)
            stream->recorder = NULL;
}

bool queue_ready(const Op *op)
{
    return (op->after == NULL || op->after->done >= op->count) &&
           (op->ready == NULL || op->ready((void *)op->arguments));
}

bool queue_awaits_others(const Op *op)
{
    return op != NULL && op->ready != NULL;
}

void queue_run(const Op *op, int device)
{
    if (op->run == NULL)
        return;
    stand_in_drift();
    stand_in_memory_open(device, op->name);
    op->run((void *)op->arguments);
    stand_in_memory_check(op->name);
}

bool queue_step(void)
{
    struct CUstream_st *chosen = NULL;
    unsigned candidates = 0;
    if (running) // a graph that waits for other ranks
        return false;
    for (struct CUstream_st *stream = streams; stream != NULL; stream = stream->next)
        if (stream->first != NULL && queue_ready(stream->first) &&
            stand_in_random(++candidates) == 0)
            chosen = stream;
    if (chosen == NULL)
        return false;
    Op *op = chosen->first;
    running = true;
    runner = pthread_self();
    queue_run(op, chosen->device);
    running = false;
    chosen->first = op->next;
    if (chosen->first == NULL)
        chosen->last = &chosen->first;
    chosen->done++;
    free(op);
    return true;
}

static void wait_for_others(void)
{
    bool awaits_others = running;
    for (const struct CUstream_st *stream = streams; stream != NULL; stream = stream->next)
        awaits_others |= queue_awaits_others(stream->first);
    if (!awaits_others)
        stand_in_fail("streams wait for each other");
    stand_in_rest();
}

void queue_run_until(const struct CUstream_st *stream, uint64_t count)
{
    while (stream->done < count)
        if (!queue_step())
            wait_for_others();
    stand_in_memory_close();
}

void stand_in_finish_stream(cudaStream_t stream)
{
    queue_run_until(queue_stream(stream), queue_stream(stream)->issued);
}

void stand_in_finish_device(int device)
{
    for (const struct CUstream_st *stream = streams; stream != NULL; stream = stream->next)
        if (stream->device == device)
            queue_run_until(stream, stream->issued);
}

int stand_in_stream_device(cudaStream_t stream)
{
    return queue_stream(stream)->device;
}

bool stand_in_stream_captures(cudaStream_t stream)
{
    return queue_stream(stream)->recorder != NULL;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    *stream = stream_new(stand_in_device(), (flags & cudaStreamNonBlocking) == 0);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    LOCKED;
    queue_stream(stream)->destroyed = true; // what is queued is still done
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    if (stand_in_capturing() || stand_in_stream_captures(stream))
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    stand_in_count.waits++;
    stand_in_count.spins++;
    stand_in_finish_stream(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    LOCKED;
    if (stand_in_capturing() || stand_in_stream_captures(stream))
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    queue_step(); // time passes
    stand_in_memory_close();
    return queue_stream(stream)->first == NULL ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize(void)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    if (stand_in_capturing())
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    stand_in_count.waits++;
    stand_in_count.spins++;
    stand_in_finish_device(stand_in_device());
    return cudaSuccess;
}
