/* Spans cost nothing until somebody listens. */
#include "common/base/span.h"

#include "common/base/nvtx.h"

bool span_timing;
double span_seconds[NUM_SPAN_KINDS];
void (*span_listener)(const Span *span);

static Span evaluation; // begin 0: none is running

const char *span_kind_name(SpanKind kind)
{
    static const char *const names[NUM_SPAN_KINDS] = { "data", "forward",   "backward",
                                                       "wait", "optimizer", "evaluation",
                                                       "graph" };
    return names[kind];
}

Span span_open(SpanKind kind, const char *name)
{
    nvtx_push(span_kind_name(kind), name);
    const GpuMark mark = gpu_mark(NULL);
    return (Span){ .kind = kind, .name = name, .begin = seconds_now(), .gpu_begin = mark };
}

void span_close(Span *span)
{
    span->end = seconds_now();
    span->gpu_end = gpu_mark(NULL);
    nvtx_pop();
    if (evaluation.begin == 0)
        span_seconds[span->kind] += span->end - span->begin;
    if (span_listener != NULL)
        span_listener(span);
}

void span_turn(Span *span, SpanKind kind, const char *name)
{
    span_close(span);
    nvtx_push(span_kind_name(kind), name);
    const GpuMark mark = span->gpu_end;
    *span = (Span){ .kind = kind, .name = name, .begin = seconds_now(), .gpu_begin = mark };
}

void span_enter_evaluation(void)
{
    evaluation = span_begin(SPAN_EVALUATION, "evaluation");
}

void span_leave_evaluation(void)
{
    Span span = evaluation;
    evaluation.begin = 0;
    span_end(&span);
}
