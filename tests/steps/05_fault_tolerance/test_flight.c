/* Runs that are healthy, slow or lose a rank, and the verdicts on their flight records. */
#include "05_fault_tolerance/checks/process_identity.h"
#include "tests/steps/05_fault_tolerance/flight_run.h"

static void well_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg);
    run_barrier(&pg);
    sum(&pg);
    bool seen = false;
    while (!seen) { // because a rank that is delayed for two seconds seems to hang
        seen = rank->rank == 0 && verdict_has("The ranks go on: ");
        seen = all_reduce_scalar(&pg, seen, REDUCE_MAX) > 0;
    }
    leave(&pg);
}

static void test_a_run_that_goes_well(void **state)
{
    (void)state;
    ranks_run_well(3, well_body, NULL);
    expect_verdict(true, "All ranks have finished.");
}

static void killed_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg);
    run_barrier(&pg);
    if (rank->rank == 1) {
        await_call(0, 2, false);
        await_call(2, 2, false);
        raise(SIGKILL);
    }
    sum(&pg);
    leave(&pg);
}

static void test_a_killed_rank_and_its_record(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, killed_body, NULL, end);
    assert_int_equal(end[1].status, 128 + SIGKILL);
    char text[512], path[128];
    snprintf(text, sizeof text,
             "connection closed during all_reduce #2 of 18432 float32 (mean); "
             "see tools/ddp_doctor %s\n",
             dir);
    expect_error(end, 0, text);

    snprintf(path, sizeof path, "%s/flight/rank1.flight", dir);
    FlightRecord *record = flight_record_read(path, text, sizeof text);
    assert_non_null(record);
    assert_int_equal(record->rank, 1);
    assert_int_equal(record->state, FLIGHT_RUNNING);
    const FlightEntry *entry = &record->entry[1]; // the group's call 0 was the recorder's
    assert_int_equal(entry->number, 2);
    assert_int_equal(entry->kind, BARRIER);
    assert_true(entry->scheduled_ns <= entry->started_ns);
    assert_true(entry->started_ns <= entry->completed_ns);
    assert_int_equal(record->entry[2].number, 0);

    expect_verdict(false, "ranks 0 and 2 wait for rank 1. Rank 1 (process ");
    snprintf(text, sizeof text, "In all_reduce #2 of 18432 float32 (mean) at flight_run.c:%d, ",
             sum_line);
    expect_verdict(false, text);
    snprintf(text, sizeof text, "(process %d on ", record->pid);
    expect_verdict(false, text);
    snprintf(text, sizeof text, " is gone; its last call, barrier #1 at flight_run.c:%d, completed",
             barrier_line);
    expect_verdict(false, text);
    free(record);
}

/* An earlier run was complete; this one is not. */
static void missing_body(Rank *rank)
{
    rank->args.timeout = 1;
    ProcessGroup pg;
    if (rank->rank == 0)
        store_wait(&rank->store, "group 1/line of rank 1"); // or rank 1 would be missing, too
    if (rank->rank != 2)
        join(rank, &pg);
}

static void test_a_rank_that_was_never_there(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run_well(3, well_body, NULL);
    ranks_run(3, missing_body, NULL, end);
    expect_error(end, 0, "rank 2 of 3 did not come within 1 s");
    expect_verdict(false, "Missing: rank 2: no record of this attempt in ");
}

typedef struct {
    int rank;
    unsigned milliseconds; // delay of each call
} Slow;

static void slow_body(Rank *rank)
{
    const Slow *slow = rank->context;
    ProcessGroup pg;
    join(rank, &pg);
    for (int i = 0; i < 20; i++) {
        if (rank->rank == slow->rank)
            usleep(slow->milliseconds * 1000);
        sum(&pg);
    }
    leave(&pg);
}

/* Retries with a slower rank if a busy machine delays the others for longer. */
static void expect_slow(int rank, const char *text)
{
    Slow slow = { rank, 10 };
    do {
        slow.milliseconds *= 3;
        ranks_run_well(3, slow_body, &slow);
    } while (!verdict_has(text) && slow.milliseconds < 500);
    expect_verdict(false, text);
}

static void test_a_slow_rank(void **state)
{
    (void)state;
    expect_slow(2, "Rank 2 is slow: ");
    expect_slow(0, " %). It also saves while the others wait: --save-every-steps says how often.");
}

/* Makes far more calls than the record has room for. */
static void long_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg);
    for (int i = 0; i < 3 * FLIGHT_ENTRIES; i++)
        run_barrier(&pg);
    leave(&pg);
}

static void test_the_latest_calls_are_kept(void **state)
{
    (void)state;
    ranks_run_well(2, long_body, NULL);
    Attempt attempt;
    assert_true(attempt_load(&attempt, dir));
    assert_int_equal(attempt.world_size, 2);
    assert_int_equal(attempt.num_parts, 2 * FLIGHT_ENTRIES);
    assert_int_equal(attempt.flight[1].last->sequence, 3 * FLIGHT_ENTRIES + 1); // destroy's barrier
    assert_null(attempt.flight[1].open);
    attempt_free(&attempt);
}

static void test_processes(void **state)
{
    (void)state;
    char letter = '?';
    const uint64_t ticks = process_start_ticks(getpid(), &letter);
    assert_true(ticks > 0);
    assert_int_equal(letter, 'R');
    assert_int_equal(process_start_ticks(getpid(), NULL), ticks);
    assert_true(process_start_ticks(getppid(), NULL) <= ticks);
    assert_int_equal(process_start_ticks(0x7fffffff, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_that_goes_well),
        cmocka_unit_test(test_a_killed_rank_and_its_record),
        cmocka_unit_test(test_a_rank_that_was_never_there),
        cmocka_unit_test(test_a_slow_rank),
        cmocka_unit_test(test_the_latest_calls_are_kept),
        cmocka_unit_test(test_processes),
    };
    return run_flight_tests(tests, sizeof tests / sizeof tests[0]);
}
