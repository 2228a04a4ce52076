/*
 * The verdict, from the surest sign to the weakest: ranks that are not there, calls that differ,
 * ranks for which others wait, ranks that are stopped or gone, ranks that are slow.
 */
#include "tools/doctor/diagnosis.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/rank_list.h"
#include "tools/doctor/verdict.h"

#define SLOW_WAITS 0.1 // of the time of all ranks is spent waiting ...
#define SLOW_BLAMED 0.6 // ... and so much of that for one of them

void say(Verdict *verdict, const char *format, ...)
{
    const size_t length = strlen(verdict->text);
    va_list args;
    va_start(args, format);
    vsnprintf(verdict->text + length, DIAGNOSIS_BYTES - length, format, args);
    va_end(args);
}

double seconds_since(const Verdict *verdict, int64_t time)
{
    return verdict->now > time ? 1e-9 * (double)(verdict->now - time) : 0;
}

static bool find_absent(Verdict *verdict)
{
    const Attempt *attempt = verdict->attempt;
    bool *absent = mem_calloc((size_t)attempt->world_size, sizeof *absent);
    for (int rank = 0; rank < attempt->world_size; rank++)
        absent[rank] = attempt->flight[rank].process == PROCESS_NO_RECORD;
    const int count = rank_count(absent, attempt->world_size);
    char list[RANK_LIST_BYTES];
    if (count > 0)
        say(verdict, "Missing: %s: no record of this attempt in %s. %s",
            rank_list(absent, attempt->world_size, list), attempt->folder,
            attempt->joining ? "The others wait at the rendezvous: look why not all were started."
                             : "Does every rank write its record to this disk?");
    free(absent);
    return count > 0;
}

/* Says which ranks are in this state of their process, and what that means. */
static bool find_state(Verdict *verdict, ProcessState state, const char *meaning)
{
    const Attempt *attempt = verdict->attempt;
    bool *has = mem_calloc((size_t)attempt->world_size, sizeof *has);
    for (int rank = 0; rank < attempt->world_size; rank++)
        has[rank] = attempt->flight[rank].process == state;
    const bool found = rank_count(has, attempt->world_size) > 0;
    char list[RANK_LIST_BYTES];
    if (found)
        say(verdict, "Between two calls, %s %s.", rank_list(has, attempt->world_size, list),
            meaning);
    free(has);
    return found;
}

static bool find_lost(Verdict *verdict)
{
    return find_state(verdict, PROCESS_STOPPED, "stopped: kill -CONT lets a process go on") ||
           find_state(verdict, PROCESS_GONE, "ended too soon: the last lines of each say why");
}

static bool find_slow(Verdict *verdict, const WaitTimes *times)
{
    if (times->rank == NULL || times->usual < SLOW_WAITS)
        return false;
    const RankWaits *slowest = &times->rank[times->slowest];
    if (slowest->blamed < SLOW_BLAMED)
        return false;
    say(verdict,
        "Rank %d is slow: %.0f %% of all waiting is for it, and the ranks spend %.0f %% of their "
        "time waiting (it itself %.0f %%).",
        times->slowest, 100 * slowest->blamed, 100 * times->usual, 100 * slowest->usual);
    return true;
}

static void say_all_is_well(Verdict *verdict)
{
    const Attempt *attempt = verdict->attempt;
    bool *finished = mem_calloc((size_t)attempt->world_size, sizeof *finished);
    int64_t newest = 0, since;
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const Flight *flight = &attempt->flight[rank];
        finished[rank] = flight->process == PROCESS_FINISHED;
        if (flight->last != NULL && entry_state(flight->last, &since) != NULL && since > newest)
            newest = since;
    }
    if (rank_count(finished, attempt->world_size) == attempt->world_size)
        say(verdict, "All ranks have finished.");
    else if (attempt->joining)
        say(verdict, "All ranks are there, and about to form the group.");
    else
        say(verdict,
            "The ranks go on: nobody is missing or waits for long, and the newest call "
            "moved %.1f s ago.",
            seconds_since(verdict, newest));
    free(finished);
}

bool diagnose(const Attempt *attempt, const WaitTimes *times, int64_t now,
              char text[DIAGNOSIS_BYTES])
{
    Verdict verdict = { attempt, now, text };
    text[0] = '\0';
    if (find_mismatch(&verdict) || find_absent(&verdict) || find_waiting(&verdict) ||
        find_lost(&verdict) || find_slow(&verdict, times))
        return false;
    say_all_is_well(&verdict);
    return true;
}
