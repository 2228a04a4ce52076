/*
 * Which rank is slow? An all-reduce ends on all ranks when the last has entered. So the rank that
 * spends the least time in it came last, and the extra time of the others is waiting. Only
 * durations are compared, never the clocks of two ranks.
 */
#include "tools/doctor/wait_times.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/memory.h"

#define MIN_WAITS 32 // with fewer, the result is chance
#define MIN_SECONDS 0.3 // with a shorter time, too, the result is chance

static bool ends_for_all_at_once(int kind)
{
    return kind == ALL_REDUCE || kind == ALL_GATHER || kind == REDUCE_SCATTER || kind == BARRIER;
}

static double seconds_in(const FlightEntry *entry)
{
    const int64_t start = entry->started_ns > 0 ? entry->started_ns : entry->scheduled_ns;
    const int64_t end = entry->completed_ns;
    return end > start ? 1e-9 * (double)(end - start) : 0;
}

/* Returns true if these parts can be measured: the collective is completed on all ranks, and ends
 * on all at once. */
static bool counts(const Part *part, const Part *end)
{
    if (end - part < 2)
        return false;
    for (; part < end; part++)
        if (part->entry->completed_ns == 0 || !ends_for_all_at_once(part->entry->kind))
            return false;
    return true;
}

/* Returns the part of the rank that came last. */
static const Part *last_to_come(const Part *part, const Part *end)
{
    const Part *last = part;
    for (; part < end; part++)
        if (seconds_in(part->entry) < seconds_in(last->entry))
            last = part;
    return last;
}

/* Adds one collective to the sums, which are in seconds. */
static void add(RankWaits *rank, const Part *part, const Part *end, double limit)
{
    const Part *last = last_to_come(part, end);
    for (; part < end; part++) {
        const double waited = seconds_in(part->entry) - seconds_in(last->entry);
        const double usual = waited < limit ? waited : limit;
        rank[part->rank].waits += waited;
        rank[part->rank].usual += usual;
        rank[last->rank].blamed += usual;
    }
}

/* Adds up all collectives; returns the number of waits. */
static int add_all(RankWaits *rank, const Attempt *attempt, double limit)
{
    int num_waits = 0;
    const Part *end = attempt->part + attempt->num_parts, *next;
    for (const Part *part = attempt->part; part < end; part = next) {
        next = attempt_next(attempt, part);
        if (!counts(part, next))
            continue;
        add(rank, part, next, limit);
        num_waits += (int)(next - part) - 1; // all but the last rank's
    }
    return num_waits;
}

/* Returns how long the record of a rank reaches back, in seconds. */
static double time_recorded(const FlightRecord *record)
{
    int64_t first = INT64_MAX, last = 0;
    for (int i = 0; record != NULL && i < FLIGHT_ENTRIES; i++) {
        const FlightEntry *entry = &record->entry[i];
        if (entry->number == 0 || entry->completed_ns == 0)
            continue;
        first = entry->scheduled_ns < first ? entry->scheduled_ns : first;
        last = entry->completed_ns > last ? entry->completed_ns : last;
    }
    return last > first ? 1e-9 * ((double)last - (double)first) : 0;
}

/* Returns twice the mean wait; -1 if too little is recorded. */
static double usual_limit(const Attempt *attempt)
{
    RankWaits *rank = mem_calloc((size_t)attempt->world_size, sizeof *rank);
    const int num_waits = add_all(rank, attempt, INFINITY);
    double sum = 0, seconds = 0;
    for (int i = 0; i < attempt->world_size; i++) {
        sum += rank[i].waits;
        seconds = fmax(seconds, time_recorded(attempt->flight[i].record));
    }
    free(rank);
    return num_waits < MIN_WAITS || seconds < MIN_SECONDS ? -1 : 2 * sum / num_waits;
}

void wait_times(WaitTimes *times, const Attempt *attempt)
{
    *times = (WaitTimes){ 0 };
    const double limit = usual_limit(attempt);
    if (limit < 0)
        return;
    times->rank = mem_calloc((size_t)attempt->world_size, sizeof(RankWaits));
    add_all(times->rank, attempt, limit);

    double all = 0;
    for (int rank = 0; rank < attempt->world_size; rank++)
        all += times->rank[rank].usual;
    for (int rank = 0; rank < attempt->world_size; rank++) {
        RankWaits *waits = &times->rank[rank];
        const double recorded = time_recorded(attempt->flight[rank].record);
        waits->waits = recorded > 0 ? fmin(waits->waits / recorded, 1) : 0;
        waits->usual = recorded > 0 ? fmin(waits->usual / recorded, 1) : 0;
        waits->blamed = all > 0 ? waits->blamed / all : 0;
        times->usual += waits->usual / attempt->world_size;
        if (waits->blamed > times->rank[times->slowest].blamed)
            times->slowest = rank;
    }
}
