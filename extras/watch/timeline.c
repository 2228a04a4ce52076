/*
 * Two sources, two threads: spans come from the training thread, collectives also from the one that
 * communicates. Both append to arrays of the maximum length, so nothing is moved or freed while
 * recording; the kernel allocates only the pages that are used.
 */
#include "extras/watch/timeline.h"

#include <libgen.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/memory.h"

enum { MAX_RECORDS = 1 << 20 };

static Timeline *recording; // NULL if none
static pthread_mutex_t calls_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t first_op; // the op_id of call[0]
static double compared_at[2], clock_offset[2]; // before and after the recording; see timeline.h

FILE *timeline_file(const char *path, const char *option, int rank)
{
    if (rank > 0)
        return NULL;
    char *copy = strdup(path);
    CHECK(copy != NULL, "out of memory");
    folder_create(dirname(copy), option);
    free(copy);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL, "cannot write %s: %s: name another file with %s", path, strerror(errno),
          option);
    return file;
}

void timeline_file_close(FILE *file, const char *path)
{
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        log_warning("cannot write all of %s: %s", path, strerror(errno));
}

static void on_span(const Span *span)
{
    if (recording->num_spans < MAX_RECORDS)
        recording->span[recording->num_spans++] = *span;
    else
        recording->num_lost++;
}

/* Calls are queued in the order of op_id, by one thread, so a call's place follows from it. */
void timeline_add_call(const CallRecord *seen, uint64_t op_id)
{
    const double now = seconds_now();
    pthread_mutex_lock(&calls_mutex);
    if (recording != NULL && recording->num_calls == 0)
        first_op = op_id;
    if (recording != NULL && recording->num_calls == MAX_RECORDS) {
        recording->num_lost++;
    } else if (recording != NULL) {
        CallRecord *call = &recording->call[recording->num_calls++];
        *call = *seen;
        call->queued = now;
    }
    pthread_mutex_unlock(&calls_mutex);
}

void timeline_see_call(uint64_t op_id, bool started)
{
    const double now = seconds_now();
    pthread_mutex_lock(&calls_mutex);
    if (recording != NULL && op_id - first_op < recording->num_calls)
        *(started ? &recording->call[op_id - first_op].started
                  : &recording->call[op_id - first_op].done) = now;
    pthread_mutex_unlock(&calls_mutex);
}

/* Called by the training thread, after a call has been scheduled. */
void timeline_see_marks(uint64_t op_id, GpuMark begin, GpuMark end)
{
    pthread_mutex_lock(&calls_mutex);
    if (recording != NULL && op_id - first_op < recording->num_calls) {
        CallRecord *call = &recording->call[op_id - first_op];
        call->gpu_begin = begin;
        call->gpu_end = end;
    }
    pthread_mutex_unlock(&calls_mutex);
}

static void record(Timeline *timeline)
{
    pthread_mutex_lock(&calls_mutex);
    recording = timeline;
    pthread_mutex_unlock(&calls_mutex);
    span_listener = timeline != NULL ? on_span : NULL;
}

void timeline_start(Timeline *timeline, void *stream)
{
    *timeline = (Timeline){ .num_spans = 0 };
    timeline->span = calloc(MAX_RECORDS, sizeof *timeline->span); // untouched pages cost nothing
    timeline->call = calloc(MAX_RECORDS, sizeof *timeline->call);
    CHECK(timeline->span != NULL && timeline->call != NULL, "out of memory for a timeline");
    timeline->on_gpu = gpu_marks_start(stream);
    timeline->begin = seconds_now();
    record(timeline);
}

/* Sets the GPU times of spans and calls. time[mark]: the marks' times. */
static void read_marks(Timeline *timeline, const double *time)
{
    timeline->gpu_span = mem_calloc(timeline->num_spans, sizeof *timeline->gpu_span);
    for (size_t i = 0; i < timeline->num_spans; i++) {
        Span span = timeline->span[i];
        if (span.gpu_begin == 0 || span.gpu_end == 0)
            continue; // captured in a graph
        span.begin = time[span.gpu_begin];
        span.end = time[span.gpu_end];
        timeline->gpu_span[timeline->num_gpu_spans++] = span;
    }
    double free_since = 0; // when the communication stream, which executes calls in order, is free
    for (size_t i = 0; i < timeline->num_calls; i++) {
        CallRecord *call = &timeline->call[i];
        if (call->gpu_begin == 0 || call->gpu_end == 0)
            continue;
        call->started = fmax(time[call->gpu_begin], free_since);
        call->done = free_since = time[call->gpu_end];
    }
}

void timeline_stop(Timeline *timeline)
{
    record(NULL);
    double *time = gpu_marks_stop();
    if (time != NULL)
        read_marks(timeline, time);
    free(time);
    timeline->end = seconds_now();
}

void timeline_compare_clocks(int when)
{
    clock_offset[when] = peers_clock_offset();
    compared_at[when] = seconds_now();
}

double timeline_aligned(double time)
{
    if (peers.world_size == 1)
        return time;
    const double share = (time - compared_at[0]) / (compared_at[1] - compared_at[0]);
    return time + clock_offset[0] + share * (clock_offset[1] - clock_offset[0]);
}

void timeline_free(Timeline *timeline)
{
    free(timeline->span);
    free(timeline->gpu_span);
    free(timeline->call);
}
