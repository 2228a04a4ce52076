/*
 * span.h - what the training thread is doing, for metrics, traces and profilers.
 *
 * While nobody listens, a span costs one test of a flag. Spans belong to the training thread alone
 * and may nest. They have two kinds of time. The host's is always there; with a GPU, which works
 * asynchronously, it is how long it took to queue the work. While marks are made (gpu_marks.h), a
 * span has two of them around its work, which give the GPU's time. A tool like nsys sees spans as
 * NVTX ranges.
 */
#ifndef COMMON_BASE_SPAN_H
#define COMMON_BASE_SPAN_H

#include <stdbool.h>

#include "common/base/gpu_marks.h"
#include "common/base/log.h"

typedef enum {
    SPAN_DATA, // choosing and gathering a batch
    SPAN_FORWARD,
    SPAN_BACKWARD,
    SPAN_WAIT, // for a collective
    SPAN_OPTIMIZER,
    SPAN_EVALUATION, // includes the spans inside it
    SPAN_GRAPH, // a whole step that the GPU replays from a graph (--cuda-graph)
    NUM_SPAN_KINDS
} SpanKind;

typedef struct {
    SpanKind kind;
    const char *name; // a string that lives on, such as a parameter's name
    double begin, end; // on the clock of seconds_now(); begin 0: nobody was listening
    GpuMark gpu_begin, gpu_end; // around its work on the GPU
} Span;

extern bool span_timing; // is anybody listening? Set it to have the seconds summed up
extern double span_seconds[NUM_SPAN_KINDS]; // the host's, so far; inside an evaluation only its own
extern void (*span_listener)(const Span *span); // hears every span while span_timing; or NULL

const char *span_kind_name(SpanKind kind);

Span span_open(SpanKind kind, const char *name);
void span_close(Span *span);
void span_turn(Span *span, SpanKind kind, const char *name);

static inline Span span_begin(SpanKind kind, const char *name)
{
    Span span;
    span.begin = 0; // and nothing else while nobody listens
    return span_timing ? span_open(kind, name) : span;
}

static inline void span_end(Span *span)
{
    if (span->begin > 0)
        span_close(span);
}

/* Ends the span and begins the next, whose work follows at once: they share a mark. */
static inline void span_next(Span *span, SpanKind kind, const char *name)
{
    if (span->begin > 0)
        span_turn(span, kind, name);
}

/* Called before and after an evaluation; leaving without having entered does nothing. */
void span_enter_evaluation(void);
void span_leave_evaluation(void);

#endif
