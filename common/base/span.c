/* Nobody wants to know until somebody says so. */
#include "common/base/span.h"

bool span_timing;
double span_seconds[NUM_SPAN_KINDS];
void (*span_listener)(const Span *span);

static double evaluation_begin; // 0: we are in none

void span_record(SpanKind kind, const char *name, double begin)
{
    const Span span = { kind, name, begin, seconds_now() };
    if (evaluation_begin == 0)
        span_seconds[kind] += span.end - span.begin;
    if (span_listener != NULL)
        span_listener(&span);
}

void span_enter_evaluation(void)
{
    evaluation_begin = span_begin();
}

void span_leave_evaluation(void)
{
    const double begin = evaluation_begin;
    evaluation_begin = 0;
    span_end(SPAN_EVALUATION, "evaluation", begin);
}
