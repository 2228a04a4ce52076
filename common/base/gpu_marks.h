/*
 * gpu_marks.h - when a GPU came to a point of its queue, as a time of the host's clock.
 *
 * The host queues work and runs ahead, so its own clock says nothing about when the work is done. A
 * mark is an event between two pieces of work: the GPU notes the time when it comes by, and the
 * host reads that long after, without waiting. Two marks around some work say how long it took,
 * those around a wait how long the GPU stood still.
 *
 * Everything here is for the one thread that queues work, but in builds without CUDA does nothing.
 */
#ifndef COMMON_BASE_GPU_MARKS_H
#define COMMON_BASE_GPU_MARKS_H

#include <stdbool.h>

typedef long GpuMark; // counted from 1; 0: there is none

/* The stream (cudaStream_t) on which this process computes; NULL: none any more. */
void gpu_marks_stream(void *stream);

/* From now on marks are made. Allocates all they need, and waits for the GPU to compare its clock
 * with the host's. False where there is no GPU: then there are no marks. */
bool gpu_marks_start(void);

/* While a stream is captured (--cuda-graph) there are no marks: the events of a graph are not read
 * like others. */
void gpu_marks_pause(bool paused);

/* A mark at the end of what is queued on the stream; NULL: the one that computes. Allocates
 * nothing. It waits for the GPU only where that is a thousand marks behind. */
GpuMark gpu_mark(void *stream);

/* Waits for the GPU, compares the clocks again, and returns the times of all marks on the clock of
 * seconds_now(), at [mark]; to be freed. NULL if they were not started. No marks from here on. */
double *gpu_marks_stop(void);

#endif
