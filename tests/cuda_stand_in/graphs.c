/*
 * Graphs: captured work goes to the graph's own streams, one for each stream that takes part, and a
 * launch is one piece of work, which runs them all as streams.c does.
 */
#include <pthread.h>
#include <stdlib.h>

#include "queue.h"

struct CUgraph_st {
    struct CUstream_st *streams; // the one that began is the last
    struct CUstream_st *origin; // the capturing stream (NULL when the capture has ended)
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    bool invalid; // true if uncompleted captured work was queried
    int owners; // the handle and the instantiated graphs
    struct CUgraph_st *next; // next of all graphs being captured
};

static struct CUgraph_st *captures;
static _Thread_local enum cudaStreamCaptureMode thread_mode; // relaxed refuses nothing

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    LOCKED;
    const enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return stand_in_open();
}

bool stand_in_capturing(void)
{
    if (thread_mode == cudaStreamCaptureModeRelaxed)
        return false;
    for (const struct CUgraph_st *graph = captures; graph != NULL; graph = graph->next)
        if (graph->mode == cudaStreamCaptureModeGlobal ||
            (graph->mode == cudaStreamCaptureModeThreadLocal &&
             pthread_equal(graph->thread, pthread_self())))
            return true;
    return false;
}

void queue_invalidate(struct CUgraph_st *graph)
{
    graph->invalid = true;
}

/* Makes the stream's further work go to the graph. */
static void take_part(struct CUgraph_st *graph, struct CUstream_st *stream)
{
    struct CUstream_st *recorder = calloc(1, sizeof *recorder);
    *recorder = (struct CUstream_st){ .next = graph->streams, .device = stream->device };
    recorder->last = &recorder->first;
    recorder->graph = graph;
    stream->recorder = graph->streams = recorder;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    LOCKED;
    struct CUstream_st *stream = queue_stream(handle);
    if (handle == NULL || stream->recorder != NULL)
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    struct CUgraph_st *graph = calloc(1, sizeof *graph);
    *graph = (struct CUgraph_st){ .origin = stream, .mode = mode, .owners = 1, .next = captures };
    graph->thread = pthread_self();
    take_part(graph, stream);
    captures = graph;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    LOCKED;
    *status = stand_in_stream_captures(stream) ? cudaStreamCaptureStatusActive
                                               : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    LOCKED;
    struct CUstream_st *stream = queue_stream(handle);
    if (event->destroyed)
        stand_in_fail("a stream shall wait for a destroyed event");
    if (event->stream == NULL)
        return cudaSuccess;
    struct CUgraph_st *graph = event->stream->graph;
    if (graph != NULL && graph->origin == NULL)
        return stand_in_error(cudaErrorCapturedEvent); // the event's capture has ended
    if (graph != NULL && stream->recorder == NULL)
        take_part(graph, stream);
    if (stream->recorder != NULL && stream->recorder->graph != graph)
        return stand_in_error(cudaErrorStreamCaptureIsolation);
    if (stream->recorder == NULL) {
        queue_wait(stream, event->stream, event->count);
        return cudaSuccess;
    }
    queue_wait(stream->recorder, event->stream, event->count);
    struct CUstream_st *joined = (struct CUstream_st *)event->stream;
    if (joined != stream->recorder && joined->joined < event->count)
        joined->joined = event->count;
    return cudaSuccess;
}

static void release(struct CUgraph_st *graph)
{
    if (--graph->owners > 0)
        return;
    // The streams' own descriptions stay: events may still point at them.
    for (struct CUstream_st *stream = graph->streams; stream != NULL; stream = stream->next)
        while (stream->first != NULL) {
            Op *op = stream->first;
            stream->first = op->next;
            if (op->drop != NULL)
                op->drop(op->arguments);
            free(op);
        }
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *result)
{
    LOCKED;
    struct CUstream_st *stream = queue_stream(handle);
    *result = NULL;
    if (stream->recorder == NULL || stream->recorder->graph->origin != stream)
        return stand_in_error(cudaErrorInvalidValue);
    struct CUgraph_st *graph = stream->recorder->graph;
    bool all_joined = true;
    for (const struct CUstream_st *part = graph->streams; part != NULL; part = part->next)
        all_joined &= part == stream->recorder || part->joined == part->issued;
    queue_end_recording(graph);
    graph->origin = NULL;
    for (struct CUgraph_st **at = &captures; *at != NULL; at = &(*at)->next)
        if (*at == graph) {
            *at = graph->next;
            break;
        }
    if (!all_joined || graph->invalid) {
        release(graph);
        return stand_in_error(graph->invalid ? cudaErrorStreamCaptureInvalidated
                                             : cudaErrorStreamCaptureUnjoined);
    }
    *result = graph;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    LOCKED;
    graph->owners++;
    *exec = (cudaGraphExec_t)graph;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    LOCKED;
    release(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    LOCKED;
    release((struct CUgraph_st *)exec);
    return cudaSuccess;
}

static void run_graph(void *arguments)
{
    const struct CUgraph_st *graph = *(struct CUgraph_st **)arguments;
    for (struct CUstream_st *stream = graph->streams; stream != NULL; stream = stream->next) {
        stream->done = 0;
        stream->position = stream->first;
    }
    for (;;) {
        struct CUstream_st *chosen = NULL;
        unsigned candidates = 0;
        bool done = true;
        for (struct CUstream_st *stream = graph->streams; stream != NULL; stream = stream->next) {
            done &= stream->position == NULL;
            if (stream->position != NULL && queue_ready(stream->position) &&
                stand_in_random(++candidates) == 0)
                chosen = stream;
        }
        if (done)
            return;
        if (chosen == NULL) {
            stand_in_rest(); // waits for other ranks
            continue;
        }
        queue_run(chosen->position, chosen->device);
        chosen->position = chosen->position->next;
        chosen->done++;
    }
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    LOCKED;
    if (stand_in_stream_captures(stream))
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    stand_in_push(
        stream,
        &(Work){ .name = "graph", .run = run_graph, .arguments = &exec, .bytes = sizeof exec });
    return cudaSuccess;
}
