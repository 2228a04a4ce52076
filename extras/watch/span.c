/*
 * A span is over when the next piece of work turns out to be another one: a layer is made of more
 * than one piece. It ended when its last piece did. Spans that follow each other at once share a
 * mark.
 */
#include "extras/watch/span.h"

#include "extras/watch/nvtx.h"

bool span_timing;
double span_seconds[NUM_SPAN_KINDS];
void (*span_listener)(const Span *span);

static Span latest, evaluation; // begin is 0 if there is no such span

const char *span_kind_name(SpanKind kind)
{
    static const char *const names[NUM_SPAN_KINDS] = { "data", "forward",   "backward",
                                                       "wait", "optimizer", "evaluation",
                                                       "graph" };
    return names[kind];
}

static void start(Span *span, SpanKind kind, const char *name, GpuMark mark)
{
    nvtx_push(span_kind_name(kind), name);
    *span = (Span){ .kind = kind, .name = name, .begin = seconds_now(), .gpu_begin = mark };
}

static void finish(Span *span)
{
    const Span over = *span;
    span->begin = 0; // before calling the listener, which may cause work
    nvtx_pop();
    if (evaluation.begin == 0)
        span_seconds[over.kind] += over.end - over.begin;
    if (span_listener != NULL)
        span_listener(&over);
}

void span_close(void)
{
    if (latest.begin > 0 && latest.end > 0)
        finish(&latest);
}

void span_begin(SpanKind kind, const char *name)
{
    const bool follows = latest.begin > 0;
    if (follows && latest.kind == kind && latest.name == name) {
        latest.end = 0;
        return;
    }
    span_close();
    start(&latest, kind, name, follows ? latest.gpu_end : gpu_mark(NULL));
}

void span_end(void)
{
    latest.end = seconds_now();
    latest.gpu_end = gpu_mark(NULL);
    if (evaluation.begin > 0) {
        evaluation.end = latest.end;
        evaluation.gpu_end = latest.gpu_end;
    }
}

void span_begin_evaluation(void)
{
    if (evaluation.begin > 0)
        return;
    span_close();
    start(&evaluation, SPAN_EVALUATION, "evaluation", gpu_mark(NULL));
}

void span_continue_evaluation(void)
{
    if (evaluation.begin > 0)
        evaluation.end = seconds_now();
}

void span_end_evaluation(void)
{
    if (evaluation.begin == 0)
        return;
    span_close();
    finish(&evaluation);
}
