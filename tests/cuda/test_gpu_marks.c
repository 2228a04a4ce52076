/* The GPU's times, converted to the host's clock, and the cost of measuring them. */
#include "tests/cuda/stand_in_case.h"

#include <time.h>

#include "extras/watch/gpu_marks.h"
#include "extras/watch/timeline.h"
#include "extras/watch/watch_device.h"
#include "tests/cuda/training.h"
#include "tests/cuda_stand_in/counts.h"

enum { MARKS = 3000, STEPS = 5 }; // MARKS is three times the ring of marks

#define TOLERANCE \
    1e-3 // seconds. The stand-in's clock gains five times as much in the test's second

static void nap(double seconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = (long)(1e9 * seconds) }, NULL);
}

/* A mark's time is between the call and the end of a wait for it, on any stream. */
static void marks_body(const void *context)
{
    (void)context;
    static double before[1 + MARKS], after[1 + MARKS];
    const cudaStream_t compute = new_stream(), other = new_stream();
    CHECK(gpu_mark(NULL) == 0, "a mark before the start");
    CHECK(!gpu_marks_start(NULL), "there are marks without a GPU");
    CHECK(gpu_marks_start(compute), "there are no marks on a GPU");
    for (int i = 1; i <= MARKS; i++) {
        const cudaStream_t stream = i % 3 == 0 ? other : compute;
        if (stream == other)
            CUDA_CHECK(cudaStreamWaitEvent(other, recorded(compute), 0));
        before[i] = seconds_now();
        CHECK(gpu_mark(stream == other ? other : NULL) == i, "mark %d has another number", i);
        CUDA_CHECK(cudaStreamSynchronize(stream));
        after[i] = seconds_now();
        if (i % 30 == 0)
            nap(0.01);
    }
    double *time = gpu_marks_stop();
    for (int i = 1; i <= MARKS; i++)
        CHECK(time[i] > before[i] - TOLERANCE && time[i] < after[i] + TOLERANCE,
              "mark %d: %.6f s after the call, %.6f s before the end of the wait", i,
              time[i] - before[i], after[i] - time[i]);
    CHECK(gpu_mark(NULL) == 0, "a mark after the end");
    free(time);
}

/* Repeats a run in which waits for a core at each reading spoil the comparison of the clocks. */
static void assert_right_in_time(Body *body)
{
    int status = -1;
    for (int i = 0; i < 4 && status != 0; i++)
        status = child_run(body, NULL);
    if (status != 0)
        fail_msg("status %d: %s", status, err);
}

static void test_times_are_the_hosts(void **state)
{
    (void)state;
    assert_right_in_time(marks_body);
}

/* A host far ahead of its GPU waits; no mark is lost, and no event is created meanwhile. */
static void ahead_body(const void *context)
{
    (void)context;
    gpu_marks_start(new_stream());
    const StandInCounts before = stand_in_counts();
    for (int i = 1; i <= MARKS; i++)
        CHECK(gpu_mark(NULL) == i, "mark %d is lost", i);
    const StandInCounts after = stand_in_counts();
    CHECK(after.waits > before.waits, "nobody waited");
    CHECK(after.waits - before.waits <= 2 * MARKS, "%ld waits", after.waits - before.waits);
    CHECK(after.events_made == before.events_made && after.allocations == before.allocations,
          "something is made for a mark");
    double *time = gpu_marks_stop();
    for (int i = 2; i <= MARKS; i++)
        CHECK(time[i] >= time[i - 1] - 1e-6 && time[i] < seconds_now() + TOLERANCE,
              "mark %d: %.6f after %.6f", i, time[i], time[i - 1]);
    CHECK(cudaGetLastError() == cudaSuccess, "an error is left for others to find");
    free(time);
}

static void test_a_full_ring_waits(void **state)
{
    (void)state;
    assert_right(ahead_body);
}

/* ---- training ---- */

static StandInCounts train(Training *training)
{
    const StandInCounts before = stand_in_counts();
    for (int step = 0; step < STEPS; step++)
        training_step(training);
    const StandInCounts after = stand_in_counts();
    return (StandInCounts){ .allocations = after.allocations - before.allocations,
                            .events_made = after.events_made - before.events_made,
                            .timed_records = after.timed_records - before.timed_records,
                            .waits = after.waits - before.waits };
}

static void steps_body(const void *context)
{
    (void)context;
    static Training training;
    training_init(&training, "linear", false);
    train(&training); // warms up
    const StandInCounts off = train(&training);
    CHECK(off.timed_records == 0, "%ld events tell times to nobody", off.timed_records);

    Timeline timeline;
    watch_device(&training.model);
    timeline_start(&timeline, training.device.place.stream);
    const StandInCounts on = train(&training);
    unwatch_device();
    timeline_stop(&timeline);
    CHECK(on.events_made == 0 && on.allocations == off.allocations, "a step makes something");
    CHECK(on.waits == off.waits, "the host waits %ld times, not %ld", on.waits, off.waits);
    // One before the step, and one after zero_grad, gather, the layer and the loss, the loss and
    // the layer backward, and optim_step.
    CHECK(on.timed_records == STEPS * (1 + 7), "%ld events in %d steps", on.timed_records, STEPS);
    timeline_free(&timeline);
    training.device.ops->synchronize(&training.device);
    CHECK(train(&training).timed_records == 0, "events go on telling times");
}

static void test_a_step_costs_events_only_and_only_if_asked(void **state)
{
    (void)state;
    assert_int_equal(child_run(steps_body, NULL), 0);
}

/* The GPU starts no work before the host has queued it, and runs it in order. */
static void spans_body(const void *context)
{
    (void)context;
    static Training training;
    training_init(&training, "cnn", false);
    Timeline timeline;
    watch_device(&training.model);
    timeline_start(&timeline, training.device.place.stream);
    train(&training);
    const float loss = model_loss(&training.model);
    unwatch_device();
    timeline_stop(&timeline);
    CHECK(loss > 0, "a loss of %g", (double)loss);
    CHECK(timeline.on_gpu && timeline.num_gpu_spans == timeline.num_spans, "%zu of %zu spans",
          timeline.num_gpu_spans, timeline.num_spans);
    double busy = 0, work = 0;
    for (size_t i = 0; i < timeline.num_gpu_spans; i++) {
        const Span *host = &timeline.span[i], *gpu = &timeline.gpu_span[i];
        CHECK(gpu->kind == host->kind && strcmp(gpu->name, host->name) == 0, "another span");
        CHECK(gpu->begin > host->begin - TOLERANCE && gpu->end < timeline.end + TOLERANCE &&
                  gpu->end >= gpu->begin - 1e-6,
              "span %zu, %s: from %.6f to %.6f, queued at %.6f", i, gpu->name, gpu->begin, gpu->end,
              host->begin);
        CHECK(i == 0 || gpu->begin >= gpu[-1].end - 1e-6, "span %zu overlaps", i);
        busy += gpu->end - gpu->begin;
        if (gpu->kind == SPAN_FORWARD || gpu->kind == SPAN_BACKWARD)
            work += gpu->end - gpu->begin;
    }
    // The stand-in's work runs on the CPU and takes most of this time.
    const double wall = timeline.end - timeline.begin;
    CHECK(work > 0.3 * wall && busy <= wall + TOLERANCE, "%.3f s of work, %.3f s busy in %.3f s",
          work, busy, wall);
    timeline_free(&timeline);
}

static void test_spans_as_the_gpu_had_them(void **state)
{
    (void)state;
    assert_right_in_time(spans_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_are_the_hosts),
        cmocka_unit_test(test_a_full_ring_waits),
        cmocka_unit_test(test_a_step_costs_events_only_and_only_if_asked),
        cmocka_unit_test(test_spans_as_the_gpu_had_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
