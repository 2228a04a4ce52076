/*
 * span.h - what the training thread is busy with, told to whoever wants to know.
 *
 * As long as nobody wants to, a span costs a look at a flag. Spans are of one thread, the one that
 * trains, and may lie inside one another. They are the host's time: on a GPU, which works through
 * its queue behind the host's back, a span is how long it took to queue the work, and the time of
 * the work itself shows where the host waits for it.
 */
#ifndef COMMON_BASE_SPAN_H
#define COMMON_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/log.h"

typedef enum {
    SPAN_DATA, // choosing and gathering a batch
    SPAN_FORWARD,
    SPAN_BACKWARD,
    SPAN_WAIT, // for a collective
    SPAN_OPTIMIZER,
    SPAN_EVALUATION, // the others inside it are part of it
    NUM_SPAN_KINDS
} SpanKind;

typedef struct {
    SpanKind kind;
    const char *name; // a string that lives on, such as a parameter's name
    double begin, end; // on the clock of seconds_now()
} Span;

extern bool span_timing; // does anybody want to know? Set it to have the seconds summed up
extern double span_seconds[NUM_SPAN_KINDS]; // so far; what is inside an evaluation adds to no other
extern void (*span_listener)(const Span *span); // hears every span while span_timing; or NULL

void span_record(SpanKind kind, const char *name, double begin);

static inline double span_begin(void)
{
    return span_timing ? seconds_now() : 0;
}

static inline void span_end(SpanKind kind, const char *name, double begin)
{
    if (begin > 0 && span_timing)
        span_record(kind, name, begin);
}

/* An evaluation lies between these two; leaving where nobody has entered does nothing. */
void span_enter_evaluation(void);
void span_leave_evaluation(void);

#endif
