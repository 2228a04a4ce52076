/*
 * trace.h - a timeline as a picture: one JSON file that Perfetto (ui.perfetto.dev) and Chrome draw.
 *
 * The Trace Event Format, as PyTorch's profiler writes it. A rank is a "process" with two lanes:
 * the thread that trains, and the collectives; an arrow leads from where a collective was queued to
 * where it began. On a GPU the thread only queues, and a third lane shows what the GPU computes;
 * the collectives' lane is the GPU's, too, over nccl.
 */
#ifndef COMMON_IO_TRACE_H
#define COMMON_IO_TRACE_H

#include "common/io/timeline.h"

/* Brings the timelines of all ranks into the file, which rank 0 has opened, and closes it. To be
 * called when the timeline has stopped; collective where it has a group. A disk that is full is a
 * warning. */
void trace_write(FILE *file, const char *path, Timeline *timeline, int rank);

#endif
