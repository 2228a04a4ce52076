/*
 * Two sources, two threads: spans come from the training thread, collectives also from the one that
 * communicates. Both append to arrays of the maximum length, so nothing is moved or freed while
 * recording; the kernel allocates only the pages that are used.
 */
#include "common/io/timeline.h"

#include <libgen.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/observer.h"

enum { MAX_RECORDS = 1 << 20, NUM_PINGS = 16 };

static Timeline *recording; // NULL: none
static Observer observer;
static pthread_mutex_t calls_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t first_op; // op_id of call[0]

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

static void hear_span(const Span *span)
{
    if (recording->num_spans < MAX_RECORDS)
        recording->span[recording->num_spans++] = *span;
    else
        recording->num_lost++;
}

/* Calls are queued in the order of op_id, by one thread, so a call's place follows from it. */
static void see_call(void *context, const Collective *collective, CollectiveState state)
{
    (void)context;
    const double now = seconds_now();
    pthread_mutex_lock(&calls_mutex);
    Timeline *timeline = recording;
    if (timeline != NULL && state == COLLECTIVE_SCHEDULED) {
        if (timeline->num_calls == 0)
            first_op = collective->op_id;
        const bool of_all =
            collective->pg->parent == NULL && !collective_is_point_to_point(collective->kind);
        if (timeline->num_calls < MAX_RECORDS)
            timeline->call[timeline->num_calls++] =
                (Call){ .kind = collective->kind,
                        .type = collective->type,
                        .count = collective->count,
                        .sequence = of_all ? (int64_t)collective->sequence : -1,
                        .queued = now };
        else
            timeline->num_lost++;
    } else if (timeline != NULL && collective->op_id - first_op < timeline->num_calls) {
        Call *call = &timeline->call[collective->op_id - first_op];
        if (state == COLLECTIVE_STARTED)
            call->started = now;
        else if (state == COLLECTIVE_COMPLETED)
            call->done = now;
    }
    pthread_mutex_unlock(&calls_mutex);
}

/* By the thread that calls; here a call has been scheduled already. */
static void see_marks(void *context, const Collective *collective, GpuMark begin, GpuMark end)
{
    (void)context;
    pthread_mutex_lock(&calls_mutex);
    if (recording != NULL && collective->op_id - first_op < recording->num_calls) {
        Call *call = &recording->call[collective->op_id - first_op];
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
    span_listener = timeline != NULL ? hear_span : NULL;
    span_timing = true; // and stays true: metrics may need the sums
}

/* Asks rank 0 for the time. The answer is half a round trip old, give or take the other half: so
 * the quickest of several is the best (Mills, RFC 5905). */
static double measure_offset(ProcessGroup *pg)
{
    double offset = 0, quickest = 1e9, time = 0;
    for (int rank = 1; pg->rank == 0 && rank < pg->world_size; rank++)
        for (int i = 0; i < NUM_PINGS; i++) {
            pg_recv(pg, &time, 1, FLOAT64, rank);
            time = seconds_now();
            pg_send(pg, &time, 1, FLOAT64, rank);
        }
    for (int i = 0; pg->rank > 0 && i < NUM_PINGS; i++) {
        const double asked = seconds_now();
        pg_send(pg, &time, 1, FLOAT64, 0);
        pg_recv(pg, &time, 1, FLOAT64, 0);
        const double answered = seconds_now();
        if (answered - asked < quickest) {
            quickest = answered - asked;
            offset = time - (asked + answered) / 2;
        }
    }
    return offset;
}

void timeline_start(Timeline *timeline, ProcessGroup *pg)
{
    *timeline = (Timeline){ .pg = pg != NULL && pg->world_size > 1 ? pg : NULL };
    timeline->span = calloc(MAX_RECORDS, sizeof *timeline->span); // untouched pages cost nothing
    timeline->call = calloc(MAX_RECORDS, sizeof *timeline->call);
    CHECK(timeline->span != NULL && timeline->call != NULL, "out of memory for a timeline");
    timeline->on_gpu = gpu_marks_start();
    if (timeline->pg != NULL) {
        timeline->offset_at_begin = measure_offset(pg);
        barrier(pg); // rank 0 has sent its last answer: all begin
    }
    if (pg != NULL && observer.see == NULL) {
        observer.see = see_call;
        observer.see_marks = see_marks;
        process_group_observe(pg, &observer);
    }
    timeline->begin = seconds_now();
    record(timeline);
}

/* Sets the GPU's times of spans and calls. time[mark]: the marks' times. */
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
    for (size_t i = 0; i < timeline->num_calls; i++) {
        Call *call = &timeline->call[i];
        if (call->gpu_begin == 0 || call->gpu_end == 0)
            continue;
        call->started = time[call->gpu_begin];
        call->done = time[call->gpu_end];
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
    if (timeline->pg != NULL)
        timeline->offset_at_end = measure_offset(timeline->pg);
}

double timeline_aligned(const Timeline *timeline, double time)
{
    const double share = (time - timeline->begin) / (timeline->end - timeline->begin);
    return time + timeline->offset_at_begin +
           share * (timeline->offset_at_end - timeline->offset_at_begin);
}

void timeline_free(Timeline *timeline)
{
    free(timeline->span);
    free(timeline->gpu_span);
    free(timeline->call);
}
