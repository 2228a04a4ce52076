/* queue.h - streams as queues of work, shared by streams.c and graphs.c. */
#ifndef TESTS_CUDA_STAND_IN_QUEUE_H
#define TESTS_CUDA_STAND_IN_QUEUE_H

#include "stand_in.h"

typedef struct Op {
    struct Op *next;
    const char *name;
    void (*run)(void *arguments); // NULL if it only waits
    bool (*ready)(void *arguments); // see Work
    void (*drop)(void *arguments); // see Work
    const struct CUstream_st *after; // waits until `count` operations of this stream are done
    uint64_t count;
    _Alignas(64) char arguments[];
} Op;

struct CUstream_st {
    struct CUstream_st *next; // next of all streams or of the graph's
    int device;
    bool blocking, destroyed;
    Op *first, **last; // operations not done yet (all in a graph's stream)
    uint64_t issued, done;
    struct CUgraph_st *graph; // the graph that owns this stream
    struct CUstream_st *recorder; // destination of work while a graph is captured
    Op *position; // in a graph's: next operation of the running launch
    uint64_t joined; // in a graph's: operations that another of its streams has waited for
};

struct CUevent_st {
    const struct CUstream_st *stream; // stream when the event was recorded (NULL if never)
    uint64_t count;
    bool timed, blocks, destroyed;
    double seconds; // when the device last reached it, on its own clock
};

/* Returns the stream; NULL is the device's default. Dies if there is no such stream. */
struct CUstream_st *queue_stream(cudaStream_t stream);
void queue_append(struct CUstream_st *stream, const Work *work);
void queue_wait(struct CUstream_st *stream, const struct CUstream_st *after, uint64_t count);
bool queue_ready(const Op *op);
bool queue_awaits_others(const Op *op); // true if only other processes can make it ready
void queue_run(const Op *op, int device);
bool queue_step(void); // runs one stream's next operation, if any is ready
void queue_run_until(const struct CUstream_st *stream, uint64_t count);
void queue_invalidate(struct CUgraph_st *graph); // a capture in progress will end with an error
void queue_end_recording(const struct CUgraph_st *graph); // its streams queue their work again

#endif
