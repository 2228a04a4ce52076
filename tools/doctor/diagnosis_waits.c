/*
 * Which rank waits for which? A rank with a call that is not completed waits for the members of its
 * group that have not made that call. Those may wait themselves, in another group; the culprits are
 * the ranks that do not wait: they compute, are stopped or are gone.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/flight_reader.h"
#include "tools/doctor/sentences.h"
#include "tools/doctor/source_line.h"

#define HANG_SECONDS 2.0 // a wait for a rank that may be computing
#define MAX_CULPRITS 4 // described one by one

/* Returns true if this rank takes part in an open call, and will do its share. */
static bool waits(const Flight *flight)
{
    return flight->open != NULL && flight->process != PROCESS_STOPPED &&
           (flight->process != PROCESS_GONE || flight->open->failed_ns > 0);
}

static bool is_same_call(const FlightEntry *a, const FlightEntry *b)
{
    return a->sequence == b->sequence && strcmp(a->group, b->group) == 0;
}

/* Returns when the first rank gave this call up; INT64_MAX if no rank has. */
static int64_t given_up_at(const Attempt *attempt, const FlightEntry *call)
{
    int64_t first = INT64_MAX;
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const FlightEntry *open = attempt->flight[rank].open;
        if (open != NULL && open->failed_ns > 0 && is_same_call(open, call))
            first = open->failed_ns < first ? open->failed_ns : first;
    }
    return first;
}

void diagnosis_culprits(const Attempt *attempt, const FlightEntry *call, bool *culprit)
{
    const Part *part = attempt->part, *end = attempt->part + attempt->num_parts;
    bool *member = mem_calloc((size_t)attempt->world_size, sizeof *member);
    bool *came = mem_calloc((size_t)attempt->world_size, sizeof *came);
    const bool of_two = collective_is_point_to_point(call->kind);
    for (; part < end; part++) {
        member[part->rank] |= strcmp(part->entry->group, call->group) == 0;
        came[part->rank] |= is_same_call(part->entry, call);
    }
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const Flight *flight = &attempt->flight[rank];
        const bool concerned = of_two ? rank == call->root : member[rank] || call->group[0] == '\0';
        const bool in_it = came[rank] && !of_two;
        const bool stuck = in_it && flight->open != NULL && is_same_call(flight->open, call);
        if (concerned && (!in_it || stuck) && !waits(flight))
            culprit[rank] = true;
    }
    free(member);
    free(came);
}

/* Marks, if no rank is missing any more, the ranks that are gone without having given up, since
 * something ended them; if there are none, the ranks that made a call after another rank had given
 * it up. */
static void mark_others(const Attempt *attempt, bool *culprit)
{
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const Flight *flight = &attempt->flight[rank];
        culprit[rank] = flight->process == PROCESS_GONE && !waits(flight);
    }
    if (rank_count(culprit, attempt->world_size) > 0)
        return;
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const FlightEntry *open = attempt->flight[rank].open;
        culprit[rank] = open != NULL && open->scheduled_ns > given_up_at(attempt, open);
    }
}

/* Writes "Rank 1 (process 123 on vm) is stopped; its last call, ..., ended 12.3 s ago." */
static void describe_rank(Sentences *sentences, int rank)
{
    static const char *const states[] = {
        [PROCESS_NO_RECORD] = "has left no record",
        [PROCESS_ELSEWHERE] = "is elsewhere: run this on its machine, too",
        [PROCESS_RUNNING] = "runs, but does something else",
        [PROCESS_STOPPED] = "is stopped: kill -CONT lets it go on",
        [PROCESS_GONE] = "is gone",
        [PROCESS_FINISHED] = "has finished: it made fewer calls than the others",
    };
    const Flight *flight = &sentences->attempt->flight[rank];
    put(sentences, " Rank %d ", rank);
    if (flight->record != NULL)
        put(sentences, "(process %d on %s) ", flight->record->pid, flight->record->host);
    const FlightEntry *entry = flight->open != NULL ? flight->open : flight->last;
    if (entry == NULL) {
        put(sentences, "%s; it has made no call.", states[flight->process]);
        return;
    }
    const int64_t given_up = given_up_at(sentences->attempt, entry);
    char call[DESCRIPTION_BYTES], line[SOURCE_LINE_BYTES];
    flight_entry_describe(entry, call);
    source_line(flight->record, entry, line);
    if (given_up < entry->scheduled_ns) {
        put(sentences, "came when the others had given up, at %s: it was stopped, or computed.",
            line);
        return;
    }
    int64_t since;
    const char *state = entry_state(entry, &since);
    put(sentences, "%s; its last call, %s at %s, %s %.1f s ago.", states[flight->process], call,
        line, state, seconds_since(sentences, since));
}

/* Returns the call that has waited longest, of the ranks that wait; NULL if none. */
static const FlightEntry *longest_wait(const Attempt *attempt)
{
    const FlightEntry *longest = NULL;
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const Flight *flight = &attempt->flight[rank];
        if (waits(flight) &&
            (longest == NULL || flight->open->scheduled_ns < longest->scheduled_ns))
            longest = flight->open;
    }
    return longest;
}

/* Names the ranks that wait in this call, except the culprits. */
static void describe_waiting(Sentences *sentences, const FlightEntry *call, const bool *culprit)
{
    const Attempt *attempt = sentences->attempt;
    bool *has = mem_calloc((size_t)attempt->world_size, sizeof *has);
    char text[DESCRIPTION_BYTES], list[RANK_LIST_BYTES], line[SOURCE_LINE_BYTES] = "";
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const Flight *flight = &attempt->flight[rank];
        has[rank] = waits(flight) && is_same_call(flight->open, call) && !culprit[rank];
        if (has[rank] && line[0] == '\0')
            source_line(flight->record, flight->open, line);
    }
    rank_list(has, attempt->world_size, list);
    put(sentences, "In %s at %s, %s wait%s", flight_entry_describe(call, text), line, list,
        list[4] == 's' ? "" : "s");
    free(has);
}

/* Returns true if the call may complete: all ranks are there and none has waited for long. */
static bool may_complete(const Sentences *sentences, const FlightEntry *call)
{
    const Attempt *attempt = sentences->attempt;
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const Flight *flight = &attempt->flight[rank];
        if (flight->process == PROCESS_GONE || flight->process == PROCESS_STOPPED ||
            flight->process == PROCESS_FINISHED ||
            (flight->open != NULL && flight->open->failed_ns > 0))
            return false;
    }
    return seconds_since(sentences, call->scheduled_ns) < HANG_SECONDS;
}

bool find_waiting(Sentences *sentences)
{
    const Attempt *attempt = sentences->attempt;
    const FlightEntry *call = longest_wait(attempt);
    if (call == NULL || may_complete(sentences, call))
        return false;
    bool *culprit = mem_calloc((size_t)attempt->world_size, sizeof *culprit);
    diagnosis_culprits(attempt, call, culprit);
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const Flight *flight = &attempt->flight[rank];
        if (waits(flight) && !is_same_call(flight->open, call))
            diagnosis_culprits(attempt, flight->open, culprit);
    }

    if (rank_count(culprit, attempt->world_size) == 0)
        mark_others(attempt, culprit);
    describe_waiting(sentences, call, culprit);
    char list[RANK_LIST_BYTES];
    if (rank_count(culprit, attempt->world_size) > 0)
        put(sentences, " for %s.", rank_list(culprit, attempt->world_size, list));
    else
        put(sentences, ", and nobody is missing: the data does not arrive, or they wait for each "
                       "other in different calls.");
    for (int rank = 0, count = 0; rank < attempt->world_size && count < MAX_CULPRITS; rank++)
        if (culprit[rank]) {
            describe_rank(sentences, rank);
            count++;
        }
    free(culprit);
    return true;
}
