/* queue.h - streams as queues of work: what streams.c and graphs.c share. */
#ifndef TESTS_CUDA_STAND_IN_QUEUE_H
#define TESTS_CUDA_STAND_IN_QUEUE_H

#include "stand_in.h"

typedef struct Op {
    struct Op *next;
    const char *name;
    void (*run)(void *arguments); // NULL: only waits
    bool (*ready)(void *arguments); // see Work
    void (*drop)(void *arguments); // the same
    const struct CUstream_st *after; // until `count` of this stream's are done
    uint64_t count;
    _Alignas(64) char arguments[];
} Op;

struct CUstream_st {
    struct CUstream_st *next; // of all streams, or of a graph's
    int device;
    bool blocking, destroyed;
    Op *first, **last; // not done yet; of a graph's stream: all
    uint64_t issued, done;
    struct CUgraph_st *graph; // whose stream this is
    struct CUstream_st *recorder; // where work goes while a graph is captured
    Op *position; // of a graph's: the next to be done in the launch that runs
    uint64_t joined; // of a graph's: how many of `issued` another of its streams has waited for
};

struct CUevent_st {
    const struct CUstream_st *stream; // as it was when the event was recorded; NULL: never
    uint64_t count;
    bool timed, blocks, destroyed;
    double seconds; // when the device last came by, on its own clock
};

/* The stream that is meant: NULL is the device's default. Dies where there is none such. */
struct CUstream_st *queue_stream(cudaStream_t stream);
void queue_append(struct CUstream_st *stream, const Work *work);
void queue_wait(struct CUstream_st *stream, const struct CUstream_st *after, uint64_t count);
bool queue_ready(const Op *op);
bool queue_awaits_others(const Op *op); // only they can make it ready
void queue_run(const Op *op, int device);
bool queue_step(void); // does the next piece of one stream, if any is ready
void queue_run_until(const struct CUstream_st *stream, uint64_t count);
void queue_invalidate(struct CUgraph_st *graph); // its capture, if it goes on, ends with an error
void queue_end_recording(const struct CUgraph_st *graph); // its streams queue their work again

#endif
