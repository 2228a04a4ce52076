/*
 * A rank's time is divided into the outermost spans of its training thread; the gaps between them
 * are the rest (printing, saving). Waits are divided once more at the moment the last rank calls
 * the collective waited for, which all ranks learn from one all_reduce over the times of their
 * calls. On a GPU the GPU's spans are divided, and a rank has called when its GPU reaches the call.
 */
#include "extras/watch/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"

typedef enum {
    DATA,
    FORWARD,
    BACKWARD,
    OPTIMIZER,
    GRAPH,
    EXPOSED,
    SLOWEST,
    EVALUATION,
    REST,
    NUM_PHASES,
    HIDDEN = NUM_PHASES, // overlaps the others, so not a part of their sum
    MESSAGES, // hidden and exposed messages
    WALL,
    LATE, // total delay of this rank's calls behind the first rank's
    NUM_TIMES
} Time;

static const char *const labels[NUM_PHASES] = {
    [DATA] = "data",
    [FORWARD] = "forward",
    [BACKWARD] = "backward",
    [OPTIMIZER] = "optimizer",
    [GRAPH] = "step (graph)",
    [EXPOSED] = "communication exposed",
    [SLOWEST] = "wait for the slowest rank",
    [EVALUATION] = "evaluation",
    [REST] = "rest: printing, saving",
};

/* When the last rank had called each collective, by this rank's clock; on a subgroup, when this
 * rank had called it. */
typedef struct {
    double *all_called; // indexed by call
    size_t *ended; // calls whose end is known, in order
    size_t num_ended;
    double late; // total delay of this rank behind the first
} CallTimes;

static double called(const Timeline *timeline, const CallRecord *call)
{
    return timeline->on_gpu && call->started > 0 ? call->started : call->queued;
}

/* Collects the times of the group's calls, which are comparable because all ranks make them. */
static CallTimes collect_call_times(Timeline *timeline)
{
    const size_t n = timeline->num_calls;
    CallTimes calls = { .all_called = mem_calloc(n, sizeof(double)),
                        .ended = mem_calloc(n, sizeof(size_t)) };
    double *first = mem_calloc(n, sizeof *first), *last = mem_calloc(n, sizeof *last);
    size_t num_shared = 0;
    for (size_t i = 0; i < n; i++) {
        const CallRecord *call = &timeline->call[i];
        calls.all_called[i] = called(timeline, call);
        if (call->sequence >= 0)
            first[num_shared++] = timeline_aligned(calls.all_called[i]);
        if (call->done > 0)
            calls.ended[calls.num_ended++] = i;
    }
    double most[2] = { (double)num_shared, -(double)num_shared }; // maximum; minus the minimum
    if (peers.world_size > 1)
        peers.max(most, 2);
    const bool same = peers.world_size > 1 && most[0] == -most[1];
    if (same) {
        memcpy(last, first, num_shared * sizeof *last);
        peers.min(first, num_shared);
        peers.max(last, num_shared);
    }
    num_shared = 0;
    for (size_t i = 0; same && i < n; i++) {
        const CallRecord *call = &timeline->call[i];
        if (call->sequence < 0)
            continue;
        const double ours = timeline_aligned(called(timeline, call));
        calls.all_called[i] += last[num_shared] - ours;
        calls.late += ours - first[num_shared];
        num_shared++;
    }
    free(first);
    free(last);
    return calls;
}

/* Returns the collective whose end ended the wait: the last done by then, or the first thereafter,
 * since the thread that carries them out notes the end and wakes us in no particular order. */
static size_t call_waited_for(const Timeline *timeline, const CallTimes *calls, double end)
{
    size_t low = 0, high = calls->num_ended;
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        if (timeline->call[calls->ended[middle]].done <= end)
            low = middle;
        else
            high = middle;
    }
    return calls->ended[low];
}

static void add_wait(double *times, const Timeline *timeline, const CallTimes *calls,
                     const Span *span)
{
    double all_called = span->begin;
    if (calls->num_ended > 0)
        all_called = calls->all_called[call_waited_for(timeline, calls, span->end)];
    all_called = fmin(fmax(all_called, span->begin), span->end);
    times[SLOWEST] += all_called - span->begin;
    times[EXPOSED] += span->end - all_called;
}

/* Adds the spans from the last to the first: they are recorded when they end, so an outer one then
 * comes before those inside it. */
static void add_spans(double *times, const Timeline *timeline, const CallTimes *calls)
{
    static const Time phases[NUM_SPAN_KINDS] = {
        [SPAN_DATA] = DATA,           [SPAN_FORWARD] = FORWARD,       [SPAN_BACKWARD] = BACKWARD,
        [SPAN_OPTIMIZER] = OPTIMIZER, [SPAN_EVALUATION] = EVALUATION, [SPAN_GRAPH] = GRAPH,
    };
    const Span *spans = timeline->on_gpu ? timeline->gpu_span : timeline->span;
    double begin = timeline->end;
    for (size_t i = timeline->on_gpu ? timeline->num_gpu_spans : timeline->num_spans; i-- > 0;) {
        const Span *span = &spans[i];
        if (span->end > begin)
            continue; // inside an outer span
        begin = span->begin;
        if (span->kind == SPAN_WAIT)
            add_wait(times, timeline, calls, span);
        else
            times[phases[span->kind]] += span->end - span->begin;
    }
}

static void measure(double *times, Timeline *timeline)
{
    CallTimes calls = collect_call_times(timeline);
    add_spans(times, timeline, &calls);
    times[WALL] = timeline->end - timeline->begin;
    times[LATE] = calls.late;
    times[REST] = times[WALL];
    for (int phase = 0; phase < REST; phase++)
        times[REST] -= times[phase];

    // Messages were in transit from when all had called and the thread was free, to the end.
    for (size_t i = 0; i < timeline->num_calls; i++) {
        const CallRecord *call = &timeline->call[i];
        if (call->started > 0 && call->done > 0)
            times[MESSAGES] += fmax(0, call->done - fmax(call->started, calls.all_called[i]));
    }
    // Exposed time includes the delay until the waiting thread gets a core again.
    times[MESSAGES] = fmax(times[MESSAGES], times[EXPOSED]);
    times[HIDDEN] = times[MESSAGES] - times[EXPOSED];
    free(calls.all_called);
    free(calls.ended);
}

/* One kind of time over the ranks: its mean, and the ranks with the least and the most of it. */
typedef struct {
    double mean;
    int least, most; // ranks
} Spread;

static Spread spread_of(const double *times, int world_size, Time time)
{
    Spread spread = { 0 };
    for (int rank = 0; rank < world_size; rank++) {
        const double value = times[rank * NUM_TIMES + time];
        spread.mean += value / world_size;
        if (value < times[spread.least * NUM_TIMES + time])
            spread.least = rank;
        if (value > times[spread.most * NUM_TIMES + time])
            spread.most = rank;
    }
    return spread;
}

static void write_row(FILE *file, const double *times, int world_size, Time time, const char *label)
{
    const Spread spread = spread_of(times, world_size, time);
    const double wall = spread_of(times, world_size, WALL).mean;
    if (time == GRAPH && spread.mean == 0)
        return; // no graph was used
    fprintf(file, "%-28s %9.3f %6.1f%%", label, spread.mean, 100 * spread.mean / wall);
    if (world_size > 1)
        fprintf(file, "   %9.3f (%d) %9.3f (%d)", times[spread.least * NUM_TIMES + time],
                spread.least, times[spread.most * NUM_TIMES + time], spread.most);
    fprintf(file, "\n");
}

/* Returns the rank that the others wait for, or -1. It is the last to call, by far, and hardly ever
 * waits itself: a rank that merely wakes up slowly from one collective is late for the next, but
 * waits too. */
static int straggler(const double *times, int world_size)
{
    const Spread late = spread_of(times, world_size, LATE);
    const double *slow = &times[late.most * NUM_TIMES];
    const double waits =
        (spread_of(times, world_size, SLOWEST).mean + spread_of(times, world_size, EXPOSED).mean) *
        world_size;
    const double own = slow[SLOWEST] + slow[EXPOSED];
    const bool waits_little = own < 0.5 * (waits - own) / fmax(1, world_size - 1);
    return slow[LATE] >= 0.1 * slow[WALL] && waits_little ? late.most : -1;
}

/* Writes what takes most of the time, and what one could do about it. */
static void write_verdict(FILE *file, const double *times, int world_size, bool on_gpu)
{
    double share[NUM_TIMES];
    const double wall = spread_of(times, world_size, WALL).mean;
    for (Time time = 0; time < NUM_TIMES; time++)
        share[time] = 100 * spread_of(times, world_size, time).mean / wall;
    const double compute = share[FORWARD] + share[BACKWARD] + share[OPTIMIZER] + share[GRAPH];
    const int slow = straggler(times, world_size);
    const int waiting = spread_of(times, world_size, SLOWEST).most;

    if (slow >= 0)
        fprintf(file,
                "Rank %d is slow: it kept the others waiting for up to %.0f %% of the time. What "
                "else runs on its machine, or does it get more work?\n",
                slow, 100 * times[waiting * NUM_TIMES + SLOWEST] / wall);
    else if (share[EXPOSED] + share[SLOWEST] >= 25)
        fprintf(file,
                "Communication bounds this run: ranks wait for messages %.0f %% of the time. A "
                "larger batch makes fewer of them; try other --bucket-cap-mb, too.\n",
                share[EXPOSED] + share[SLOWEST]);
    else if (share[DATA] >= 20)
        fprintf(file, "Data bounds this run: %.0f %% of the time goes into making batches.\n",
                share[DATA]);
    else if (on_gpu && share[REST] >= 25)
        fprintf(file,
                "The host bounds this run: the GPU has nothing to do for %.0f %% of the time. A "
                "larger --batch-size or --cuda-graph on gives it more at once; so does reading the "
                "loss less often: --log-interval.\n",
                share[REST]);
    else if (share[REST] + share[EVALUATION] > compute)
        fprintf(file,
                "Little of the time is training: evaluation takes %.0f %%, printing and saving "
                "%.0f %%. Longer epochs, a larger --log-interval or --save-every help.\n",
                share[EVALUATION], share[REST]);
    else
        fprintf(file,
                "Computation bounds this run: forward, backward and optimizer take %.0f %% of the "
                "time. %s\n",
                compute,
                on_gpu ? "More ranks help where there are GPUs for them; --tf32 on or --amp does."
                       : "More ranks or threads help where there are cores for them; a GPU does.");
}

static void write_table(FILE *file, const double *times, int world_size, bool on_gpu)
{
    fprintf(file, "%-28s %9s %7s", "phase", "seconds", "share");
    if (world_size > 1)
        fprintf(file, "   %13s %13s", "least (rank)", "most (rank)");
    fprintf(file, "\n");
    for (Time phase = 0; phase < NUM_PHASES; phase++)
        write_row(file, times, world_size, phase,
                  on_gpu && phase == REST ? "rest: the GPU idle" : labels[phase]);
    write_row(file, times, world_size, WALL, "sum: the run's wall time");
    if (world_size > 1) {
        write_row(file, times, world_size, HIDDEN, "communication hidden");
        write_row(file, times, world_size, MESSAGES, "communication in all");
    }
    fprintf(file, "\n");
    write_verdict(file, times, world_size, on_gpu);
}

void profile_write(FILE *file, const char *path, Timeline *timeline, int rank)
{
    double ours[NUM_TIMES] = { 0 };
    double *times = mem_calloc((size_t)peers.world_size * NUM_TIMES, sizeof *times);
    measure(ours, timeline);
    peers_gather(ours, times, sizeof ours);
    if (rank == 0) {
        write_table(file, times, peers.world_size, timeline->on_gpu);
        timeline_file_close(file, path);
    }
    free(times);
}
