/*
 * trace.h - a timeline as one JSON file, for Perfetto (ui.perfetto.dev) and Chrome.
 *
 * The Trace Event Format, as PyTorch's profiler writes it. Rank R is "process" R + 1 with two
 * lanes: the training thread, and the collectives; an arrow leads from where a collective was
 * queued to where it began. On a GPU the thread only queues, and a third lane shows what the GPU
 * computes; with nccl the lane of collectives has the GPU's times too.
 */
#ifndef EXTRAS_WATCH_TRACE_H
#define EXTRAS_WATCH_TRACE_H

#include "extras/watch/timeline.h"

/* Writes the timelines of all ranks to the file, which rank 0 has opened, and closes it. Call it
 * after timeline_stop; collective if there are other ranks. Warns if the disk is full. */
void trace_write(FILE *file, const char *path, Timeline *timeline, int rank);

#endif
