/*
 * timeline.h - what happened when: the training thread's spans and the group's collectives, on
 * every rank, with all clocks set to rank 0's.
 *
 * The input for traces and profiles. Times are recorded on this rank's clock; the offsets convert
 * them to rank 0's. On a GPU there are two sets of spans: the host's, and the GPU's, from when it
 * began their work to when it had finished it.
 */
#ifndef EXTRAS_WATCH_TIMELINE_H
#define EXTRAS_WATCH_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/memory.h"
#include "extras/watch/peers.h"
#include "extras/watch/span.h"

/* A collective, as this rank saw it. */
typedef struct {
    const char *name; // "all_reduce"
    DType type;
    size_t count;
    int64_t sequence; // in the group of all ranks; -1 if called on a subgroup
    double queued, started, done; // 0 if not yet; always 0 inside a graph
    GpuMark gpu_begin, gpu_end; // nccl: started and done are computed from them when recording ends
} CallRecord;

typedef struct {
    double begin, end; // when recording began and ended
    Span *span;
    CallRecord *call;
    size_t num_spans, num_calls, num_lost; // num_lost: spans and calls beyond the maximum
    bool on_gpu;
    Span *gpu_span; // the spans with GPU work, in the GPU's times; set by timeline_stop
    size_t num_gpu_spans;
} Timeline;

/* On rank 0 opens the file at path, creating its folder (NULL on the others); if it cannot be
 * written, dies naming `option`: better now than after the training. */
FILE *timeline_file(const char *path, const char *option, int rank);

/* Closes the file; warns if the disk is full. */
void timeline_file_close(FILE *file, const char *path);

/* Start and end recording; one timeline at a time. stream: the watched GPU's, or NULL. Local. */
void timeline_start(Timeline *timeline, void *stream);
void timeline_stop(Timeline *timeline);
void timeline_free(Timeline *timeline);

/* Adds a collective that was called; reads only those fields of *call that are known before it
 * begins. Calls are numbered by op_id, starting at any number. */
void timeline_add_call(const CallRecord *call, uint64_t op_id);

/* Notes that this call has started, or that it is done. May be called by any thread. */
void timeline_see_call(uint64_t op_id, bool started);
void timeline_see_marks(uint64_t op_id, GpuMark begin, GpuMark end);

/* Compares the ranks' clocks as NTP does, by round trips: before a recording (0) and after it (1).
 * In between, the drift is taken to be linear. Collective. */
void timeline_compare_clocks(int when);

/* Returns a time of this rank on rank 0's clock; `time` itself if there is only one rank. */
double timeline_aligned(double time);

#endif
