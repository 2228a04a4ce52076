/*
 * Events in a ring that is allocated before the first mark: before an event is reused, a thousand
 * marks later, its time is read. By then the GPU has usually passed it long ago; if not, the host
 * waits.
 *
 * CUDA gives the time between two events, as a float of milliseconds: too coarse over an hour. So
 * marks are measured from a reference event, recorded once every STRETCH marks, and references from
 * each other. Work on other streams waits for the compute stream first, so no mark precedes its
 * reference by more than one event's latency.
 *
 * The GPU's clock is not the host's. They are compared when recording begins and when it ends, by
 * an event that the host polls for (the quickest of several, as with the clocks of two ranks in
 * extras/watch/peers.c); in between, the drift is taken to be linear.
 */
#include "extras/watch/gpu_marks.h"

#include <stdlib.h>

#include "common/base/cuda.h"

enum {
    RING = 1024,
    STRETCH = 256, // marks that share a reference
    NUM_REFERENCES = RING / STRETCH + 2, // enough for all marks in the ring, plus the one before
    MAX_MARKS = 1 << 22, // two for each span and collective that a timeline holds
    NUM_TRIES = 16
};

static cudaStream_t compute;

static struct {
    bool on;
    long num_marks, num_read;
    cudaEvent_t mark[RING], reference[NUM_REFERENCES];
    double *time; // [1 + MAX_MARKS] the GPU's seconds since the first reference
    double stretch_time; // the time of the reference for the stretch being read
    double host_begin; // when the GPU reached the first reference
} marks;

/* Returns the time between two events, once the GPU has passed both. */
static double seconds_between(cudaEvent_t from, cudaEvent_t to)
{
    float milliseconds = 0;
    cudaError_t error = cudaEventElapsedTime(&milliseconds, from, to);
    if (error == cudaErrorNotReady) {
        cudaGetLastError(); // clears it, or the next kernel launch would report it
        CUDA_CHECK(cudaEventSynchronize(from)); // may be the later one, on another stream
        CUDA_CHECK(cudaEventSynchronize(to));
        error = cudaEventElapsedTime(&milliseconds, from, to);
    }
    CUDA_CHECK(error);
    return 1e-3 * (double)milliseconds;
}

/* Records *event and returns the time, on the host's clock, at which the GPU reached it. */
static double compare_clocks(cudaEvent_t *event)
{
    cudaEvent_t next;
    CUDA_CHECK(cudaEventCreate(&next));
    CUDA_CHECK(cudaStreamSynchronize(compute));
    double quickest = 1e9, time = 0;
    for (int i = 0; i < NUM_TRIES; i++) {
        const double begin = seconds_now();
        CUDA_CHECK(cudaEventRecord(next, compute));
        CUDA_CHECK(cudaEventSynchronize(next));
        const double end = seconds_now();
        if (end - begin >= quickest)
            continue;
        quickest = end - begin;
        time = (begin + end) / 2;
        const cudaEvent_t best = next;
        next = *event;
        *event = best;
    }
    CUDA_CHECK(cudaEventDestroy(next));
    return time;
}

bool gpu_marks_start(void *stream)
{
    if (stream == NULL)
        return false;
    compute = stream;
    marks.num_marks = marks.num_read = 0;
    marks.stretch_time = 0;
    marks.time = calloc(1 + MAX_MARKS, sizeof *marks.time); // untouched pages cost nothing
    CHECK(marks.time != NULL, "out of memory for the GPU's times");
    for (int i = 0; i < RING; i++)
        CUDA_CHECK(cudaEventCreate(&marks.mark[i]));
    for (int i = 0; i < NUM_REFERENCES; i++)
        CUDA_CHECK(cudaEventCreate(&marks.reference[i]));
    marks.host_begin = compare_clocks(&marks.reference[0]);
    return marks.on = true;
}

/* Reads the oldest unread mark. */
static void read_mark(void)
{
    const long stretch = marks.num_read / STRETCH;
    const cudaEvent_t reference = marks.reference[stretch % NUM_REFERENCES];
    if (stretch > 0 && marks.num_read % STRETCH == 0)
        marks.stretch_time +=
            seconds_between(marks.reference[(stretch - 1) % NUM_REFERENCES], reference);
    const double time = seconds_between(reference, marks.mark[marks.num_read % RING]);
    marks.time[++marks.num_read] = marks.stretch_time + time;
}

GpuMark gpu_mark(void *stream)
{
    if (!marks.on || marks.num_marks == MAX_MARKS || cuda_is_captured(compute))
        return 0;
    const long i = marks.num_marks++;
    if (i >= RING)
        read_mark();
    if (i > 0 && i % STRETCH == 0)
        CUDA_CHECK(cudaEventRecord(marks.reference[i / STRETCH % NUM_REFERENCES], compute));
    CUDA_CHECK(cudaEventRecord(marks.mark[i % RING], stream != NULL ? stream : compute));
    return marks.num_marks;
}

double *gpu_marks_stop(void)
{
    if (!marks.on)
        return NULL;
    marks.on = false;
    while (marks.num_read < marks.num_marks)
        read_mark();
    const long stretch = marks.num_marks > 0 ? (marks.num_marks - 1) / STRETCH : 0;
    cudaEvent_t last;
    CUDA_CHECK(cudaEventCreate(&last));
    const double host_end = compare_clocks(&last);
    const double gpu_end =
        marks.stretch_time + seconds_between(marks.reference[stretch % NUM_REFERENCES], last);
    const double rate = (host_end - marks.host_begin) / gpu_end; // 1, except for clock drift
    for (long i = 1; i <= marks.num_marks; i++)
        marks.time[i] = marks.host_begin + rate * marks.time[i];

    CUDA_CHECK(cudaEventDestroy(last));
    for (int i = 0; i < RING; i++)
        CUDA_CHECK(cudaEventDestroy(marks.mark[i]));
    for (int i = 0; i < NUM_REFERENCES; i++)
        CUDA_CHECK(cudaEventDestroy(marks.reference[i]));
    return marks.time;
}
