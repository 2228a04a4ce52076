/*
 * span.h - what the training thread is doing, for metrics, traces and profilers.
 *
 * Spans belong to the training thread alone and follow one another, except that an evaluation
 * contains others. They have two kinds of time. The host's is always there; with a GPU, which works
 * asynchronously, it is how long it took to queue the work. While marks are made (gpu_marks.h), a
 * span has two of them around its work, which give the GPU's time. A tool like nsys sees spans as
 * NVTX ranges.
 */
#ifndef EXTRAS_WATCH_SPAN_H
#define EXTRAS_WATCH_SPAN_H

#include <stdbool.h>

#include "common/base/log.h"
#include "extras/watch/gpu_marks.h"

typedef enum {
    SPAN_DATA, // gathering a batch
    SPAN_FORWARD,
    SPAN_BACKWARD,
    SPAN_WAIT, // waiting for a collective
    SPAN_OPTIMIZER,
    SPAN_EVALUATION, // includes the spans inside it
    SPAN_GRAPH, // a whole step that the GPU replays from a graph (--cuda-graph)
    NUM_SPAN_KINDS
} SpanKind;

typedef struct {
    SpanKind kind;
    const char *name; // a string that lives on, such as a parameter's name
    double begin, end; // on the clock of seconds_now(); begin 0 if there is none, end 0 if not over
    GpuMark gpu_begin, gpu_end; // around its work on the GPU
} Span;

extern bool span_timing; // whether spans are wanted; if not, the functions below are not called
extern double span_seconds[NUM_SPAN_KINDS]; // host time so far; inside an evaluation only its own
extern void (*span_listener)(const Span *span); // called with every span when it is over; or NULL

const char *span_kind_name(SpanKind kind);

/* Begin and end a piece of work. Successive pieces of the same kind and name form one span. */
void span_begin(SpanKind kind, const char *name);
void span_end(void);

/* Ends the span: what follows is another one, whatever its name. No effect within a piece. */
void span_close(void);

/* Begins an evaluation, if none has begun, before its first span; it ends with the latest span or
 * call of span_continue. */
void span_begin_evaluation(void);
void span_continue_evaluation(void);
void span_end_evaluation(void);

#endif
