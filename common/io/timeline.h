/*
 * timeline.h - what happened when: the training thread's spans and the group's collectives, on
 * every rank, with all clocks set to rank 0's.
 *
 * What traces and profiles are made of. Times are recorded by this rank's clock; `offset` brings
 * them to rank 0's. On a GPU the spans are there twice: as the host had them, and from where the
 * GPU came to their work to where it was done with it.
 */
#ifndef COMMON_IO_TIMELINE_H
#define COMMON_IO_TIMELINE_H

#include <stdio.h>

#include "common/base/span.h"
#include "common/dist/backend.h"

/* A collective, as this rank saw it. */
typedef struct {
    CollectiveKind kind;
    DType type;
    size_t count;
    int64_t sequence; // in the group of all ranks; -1: called on a part of it
    double queued, started, done; // 0: not yet; in a graph never
    GpuMark gpu_begin, gpu_end; // over nccl: from them come started and done when the record ends
} Call;

typedef struct {
    ProcessGroup *pg; // NULL: this process trains alone
    double begin, end; // of what is recorded
    Span *span;
    Call *call;
    size_t num_spans, num_calls, num_lost; // lost: there were too many
    bool on_gpu;
    Span *gpu_span; // the GPU's begin and end of those that it had to do with; when it has stopped
    size_t num_gpu_spans;
    double offset_at_begin, offset_at_end; // rank 0's clock minus this one's
} Timeline;

/* Opens, on rank 0 (NULL on the others), the file that `option` names, in a folder that is created
 * if need be; dies if it cannot be written: better now than after the training. */
FILE *timeline_file(const char *path, const char *option, int rank);

/* Closes it; a disk that is full is a warning. */
void timeline_file_close(FILE *file, const char *path);

/* Starts to record; one timeline at a time. pg: the group of all ranks, or NULL. Collective then:
 * the ranks compare their clocks as NTP does, by messages to and fro. */
void timeline_start(Timeline *timeline, ProcessGroup *pg);

/* Ends the record. Collective likewise. */
void timeline_stop(Timeline *timeline);
void timeline_free(Timeline *timeline);

/* A time of this rank as rank 0's clock had it. */
double timeline_aligned(const Timeline *timeline, double time);

#endif
