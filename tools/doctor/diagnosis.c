/*
 * The sentences, from the surest sign to the weakest: missing ranks, calls that differ, ranks for
 * which others wait, ranks that are stopped or gone, ranks that are slow. A slow disk is reported
 * in any case.
 */
#include "tools/doctor/diagnosis.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "tools/doctor/sentences.h"

#define SLOW_WAITS 0.1 // share of the ranks' time spent waiting
#define SLOW_BLAMED 0.6 // share of that waiting which is for one rank

static bool find_absent(Sentences *sentences)
{
    const Attempt *attempt = sentences->attempt;
    bool *absent = mem_calloc((size_t)attempt->world_size, sizeof *absent);
    for (int rank = 0; rank < attempt->world_size; rank++)
        absent[rank] = attempt->flight[rank].process == PROCESS_NO_RECORD;
    const int count = rank_count(absent, attempt->world_size);
    char list[RANK_LIST_BYTES];
    if (count > 0)
        put(sentences, "Missing: %s: no record of this attempt in %s. %s",
            rank_list(absent, attempt->world_size, list), attempt->folder,
            attempt->joining ? "The others wait at the rendezvous: look why not all were started."
                             : "Does every rank write its record to this disk?");
    free(absent);
    return count > 0;
}

/* Reports which ranks' processes are in this state, when that happened, and what it means. */
static bool find_state(Sentences *sentences, ProcessState state, const char *when,
                       const char *meaning)
{
    const Attempt *attempt = sentences->attempt;
    bool *has = mem_calloc((size_t)attempt->world_size, sizeof *has);
    for (int rank = 0; rank < attempt->world_size; rank++)
        has[rank] = attempt->flight[rank].process == state;
    const bool found = rank_count(has, attempt->world_size) > 0;
    char list[RANK_LIST_BYTES];
    if (found)
        put(sentences, "%s, %s %s.", when, rank_list(has, attempt->world_size, list), meaning);
    free(has);
    return found;
}

static bool find_lost(Sentences *sentences)
{
    const Attempt *attempt = sentences->attempt;
    const char *when = attempt->joining ? "Before the first call" : "Between two calls";
    bool explained = attempt->joining; // a refusal is in no record; the ranks' terminal shows it
    for (int rank = 0; rank < attempt->world_size; rank++)
        explained |= attempt->flight[rank].record->error[0] != '\0';
    if (find_state(sentences, PROCESS_STOPPED, when, "stopped: kill -CONT lets a process go on"))
        return true;
    return explained
               ? find_state(sentences, PROCESS_GONE, when,
                            "ended too soon: the last lines of each say why")
               : find_state(sentences, PROCESS_GONE, "Without a last word",
                            "ended too soon: killed (SIGKILL), or with their launcher, unless the "
                            "terminal says why");
}

static bool find_slow(Sentences *sentences, const WaitTimes *times)
{
    if (times->rank == NULL || times->usual < SLOW_WAITS)
        return false;
    const RankWaits *slowest = &times->rank[times->slowest];
    if (slowest->blamed < SLOW_BLAMED)
        return false;
    put(sentences,
        "Rank %d is slow: %.0f %% of all waiting is for it, and the ranks spend %.0f %% of their "
        "time waiting (it itself %.0f %%).%s",
        times->slowest, 100 * slowest->blamed, 100 * times->usual, 100 * slowest->usual,
        times->slowest == 0
            ? " It also saves while the others wait: --save-every-steps says how often."
            : "");
    return true;
}

static void describe_progress(Sentences *sentences)
{
    const Attempt *attempt = sentences->attempt;
    bool *finished = mem_calloc((size_t)attempt->world_size, sizeof *finished);
    int64_t newest = 0, since;
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const Flight *flight = &attempt->flight[rank];
        finished[rank] = flight->process == PROCESS_FINISHED;
        if (flight->last != NULL && entry_state(flight->last, &since) != NULL && since > newest)
            newest = since;
    }
    if (rank_count(finished, attempt->world_size) == attempt->world_size)
        put(sentences, "All ranks have finished.");
    else if (attempt->joining)
        put(sentences, "All ranks are there, and about to form the group.");
    else
        put(sentences,
            "The ranks go on: nobody is missing or waits for long, and the newest call "
            "moved %.1f s ago.",
            seconds_since(sentences, newest));
    free(finished);
}

/* Reports a rank that had to wait for its disk, up to now or until it ended. */
static bool find_slow_disk(Sentences *sentences)
{
    bool found = false;
    for (int rank = 0; rank < sentences->attempt->world_size; rank++) {
        const Flight *flight = &sentences->attempt->flight[rank];
        if (flight->record == NULL || flight->record->disk_since_ns == 0)
            continue;
        found = true;
        if (flight->process == PROCESS_GONE)
            put(sentences, " Rank %d ended while it waited for a slow disk: %s.", rank,
                flight->record->disk);
        else
            put(sentences, " Rank %d has waited for a slow disk for %.1f s: %s.", rank,
                seconds_since(sentences, flight->record->disk_since_ns), flight->record->disk);
    }
    return found;
}

bool diagnose(const Attempt *attempt, const WaitTimes *times, int64_t now,
              char text[DIAGNOSIS_BYTES])
{
    Sentences sentences = { attempt, now, text, DIAGNOSIS_BYTES };
    text[0] = '\0';
    const bool found = find_mismatch(&sentences) || find_absent(&sentences) ||
                       find_waiting(&sentences) || find_lost(&sentences) ||
                       find_slow(&sentences, times);
    if (!found)
        describe_progress(&sentences);
    return !find_slow_disk(&sentences) && !found;
}
