/* flight_run.h - for tests: ranks that keep flight records, and the verdicts on these. */
#ifndef TESTS_STEPS_05_FAULT_TOLERANCE_FLIGHT_RUN_H
#define TESTS_STEPS_05_FAULT_TOLERANCE_FLIGHT_RUN_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "05_fault_tolerance/checks/flight_recorder.h"
#include "common/base/log.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/flight_reader.h"

#define TIMEOUT 200.0 // seconds to wait for a verdict; the ranks' calls have 300

static char dir[] = "/tmp/test_flight.XXXXXX"; // folder of the records
static FlightRecorder recorder;

/* Calls of a group, and the lines of flight_run.c that the records show as their callers. */
void sum(ProcessGroup *pg); // all_reduce of 18432 float32 (mean)
void run_barrier(ProcessGroup *pg); // barrier
void run_broadcast(ProcessGroup *pg); // broadcast of 10 int32 from rank 0
extern const int sum_line, barrier_line, broadcast_line;

/* Joins a group whose calls are recorded. The first, #0, is the recorder's own. */
static inline void join(Rank *rank, ProcessGroup *pg)
{
    rank->args.checkpoint_dir = dir;
    flight_recorder_init(&recorder, &rank->args, rank->rank, rank->world_size);
    rank_join(rank, pg);
    flight_recorder_join(&recorder, pg);
}

static inline void leave(ProcessGroup *pg)
{
    process_group_destroy(pg);
    flight_recorder_free(&recorder);
}

/* Called in a rank: waits until another is in its call of this number, or has aborted it. */
static inline void await_call(int rank, int op_id, bool given_up)
{
    char reason[128], path[128];
    snprintf(path, sizeof path, "%s/flight/rank%d.flight", dir, rank);
    const double end = seconds_now() + TIMEOUT;
    for (bool there = false; !there; usleep(1000)) {
        FlightRecord *record = flight_record_read(path, reason, sizeof reason);
        const FlightEntry *entry = record != NULL ? &record->entry[op_id] : NULL;
        there = record != NULL && (given_up ? entry->failed_ns : entry->started_ns) > 0;
        CHECK(there || seconds_now() < end, "rank %d does not come to call %d", rank, op_id);
        free(record);
    }
}

static inline bool read_verdict(char text[DIAGNOSIS_BYTES])
{
    Attempt attempt;
    CHECK(attempt_load(&attempt, dir), "no records: %s", attempt.refused);
    WaitTimes times;
    wait_times(&times, &attempt);
    const bool well = diagnose(&attempt, &times, flight_now(), text);
    free(times.rank);
    attempt_free(&attempt);
    return well;
}

static inline void expect_verdict(bool well, const char *text)
{
    char verdict[DIAGNOSIS_BYTES];
    assert_int_equal(read_verdict(verdict), well);
    if (strstr(verdict, text) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, verdict);
}

static inline bool verdict_has(const char *text)
{
    char verdict[DIAGNOSIS_BYTES];
    read_verdict(verdict);
    return strstr(verdict, text) != NULL;
}

/* Called in a rank while the others work: waits until the verdict contains text. */
static inline void await_verdict(const char *text)
{
    char verdict[DIAGNOSIS_BYTES] = "";
    for (const double end = seconds_now() + TIMEOUT; strstr(verdict, text) == NULL;) {
        CHECK(seconds_now() < end, "\"%s\" is not in \"%s\"", text, verdict);
        read_verdict(verdict);
        usleep(1000);
    }
}

static inline int run_flight_tests(const struct CMUnitTest *tests, size_t count)
{
    char command[64];
    SYS_CHECK(mkdtemp(dir) == NULL ? -1 : 0);
    const int failed = _cmocka_run_group_tests("flight", tests, count, NULL, NULL);
    snprintf(command, sizeof command, "rm -r %s", dir);
    return failed + (system(command) != 0);
}

#endif
