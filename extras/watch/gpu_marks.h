/*
 * gpu_marks.h - when a GPU reached a point in its queue, on the host's clock.
 *
 * The host queues work and runs ahead, so its own clock does not show when the work is done. A mark
 * is an event between two pieces of work: the GPU records the time when it reaches it, and the host
 * reads that much later, without waiting. Two marks around some work measure how long it took, two
 * around a wait how long the GPU was idle.
 *
 * Only for the thread that queues the work. In builds without CUDA it does nothing.
 */
#ifndef EXTRAS_WATCH_GPU_MARKS_H
#define EXTRAS_WATCH_GPU_MARKS_H

#include <stdbool.h>

typedef long GpuMark; // counted from 1; 0 if there is none

/* Starts making marks: allocates all they need and waits for the GPU, to compare its clock with the
 * host's. stream: the one (cudaStream_t) on which this process computes. If that is NULL, because
 * there is no GPU, makes no marks and returns false. */
bool gpu_marks_start(void *stream);

/* Makes a mark at the end of the work queued on the stream (NULL for the computing one). Allocates
 * nothing. Waits for the GPU only if that is a thousand marks behind. Returns 0 while the computing
 * stream is captured (--cuda-graph): events inside a graph cannot be read as others are. */
GpuMark gpu_mark(void *stream);

/* Waits for the GPU, compares the clocks again, and returns the times of all marks on the clock of
 * seconds_now(), at [mark]; free it with free(). NULL if marks were not started. Makes no marks
 * from here on. */
double *gpu_marks_stop(void);

#endif
