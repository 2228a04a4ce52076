/*
 * gpu_marks.h - when a GPU reached a point in its queue, on the host's clock.
 *
 * The host queues work and runs ahead, so its own clock says nothing about when the work is done. A
 * mark is an event between two pieces of work: the GPU records the time when it reaches it, and the
 * host reads that much later, without waiting. Two marks around some work say how long it took, two
 * around a wait how long the GPU was idle.
 *
 * For the one thread that queues work only. In builds without CUDA it does nothing.
 */
#ifndef EXTRAS_WATCH_GPU_MARKS_H
#define EXTRAS_WATCH_GPU_MARKS_H

#include <stdbool.h>

typedef long GpuMark; // counted from 1; 0: there is none

/* Starts making marks: allocates all they need and waits for the GPU, to compare its clock with the
 * host's. stream: the one (cudaStream_t) on which this process computes; NULL where there is no
 * GPU: then there are no marks, and it returns false. */
bool gpu_marks_start(void *stream);

/* A mark at the end of what is queued on the stream; NULL: the one that computes. Allocates
 * nothing. Waits for the GPU only if that is a thousand marks behind. While the computing stream is
 * captured (--cuda-graph) it gives none: events inside a graph cannot be read as others are. */
GpuMark gpu_mark(void *stream);

/* Waits for the GPU, compares the clocks again, and returns the times of all marks on the clock of
 * seconds_now(), at [mark]; free it with free(). NULL if marks were not started. No marks from here
 * on. */
double *gpu_marks_stop(void);

#endif
