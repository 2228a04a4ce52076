/* Runs that hang, and the ranks named by their flight records. */
#include "common/comm/tcp/tcp_mesh.h"
#include "tests/steps/05_fault_tolerance/flight_run.h"

static float data[10];

static void stopped_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg);
    if (rank->rank == 2)
        raise(SIGSTOP);
    all_reduce_async(&pg, data, 10, FLOAT32, REDUCE_SUM);
    if (rank->rank == 1)
        pause(); // until rank 0 is gone
    await_verdict(" wait for rank 2. Rank 2 (process ");
    await_verdict(" is stopped: kill -CONT lets it go on; ");
}

static void test_a_stopped_rank(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, stopped_body, NULL, end);
    if (end[0].status != 0)
        fail_msg("%s", end[0].errors);
}

/* Rank 1 is running, but does not make the call. */
static void busy_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg);
    if (rank->rank == 0)
        all_reduce_async(&pg, data, 10, FLOAT32, REDUCE_SUM);
    else
        await_verdict("rank 0 waits for rank 1. Rank 1 (process ");
    if (rank->rank == 1)
        await_verdict("runs, but does something else; it");
    else
        pause();
}

static void test_a_rank_that_does_something_else(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, busy_body, NULL, end);
    if (end[1].status != 0)
        fail_msg("%s", end[1].errors);
}

/* Rank 1 comes after the call has timed out. */
static void late_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg);
    ((Mesh *)pg.state)->timeout = 1; // the backend's state begins with the mesh
    if (rank->rank == 1)
        await_call(0, 1, true);
    run_barrier(&pg);
}

static void test_a_rank_that_comes_too_late(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, late_body, NULL, end);
    expect_error(end, 0, "rank 1 is missing in barrier #1 after 1 s");
    expect_verdict(false, "rank 0 waits for rank 1. Rank 1 (process ");
    expect_verdict(false, " came when the others had given up, at flight_run.c:");
}

static void mismatch_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg);
    run_barrier(&pg);
    if (rank->rank == 1) {
        await_call(0, 2, false);
        await_call(2, 2, false);
    }
    (rank->rank == 1 ? run_broadcast : sum)(&pg);
}

static void test_ranks_that_call_something_else(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, mismatch_body, NULL, end);
    char text[256];
    snprintf(text, sizeof text,
             "The ranks' calls differ: rank 1 calls broadcast #2 of 10 int32 from rank 0 at "
             "flight_run.c:%d, ranks 0 and 2 call all_reduce #2 of 18432 float32 (mean) at "
             "flight_run.c:%d.",
             broadcast_line, sum_line);
    expect_verdict(false, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stopped_rank),
        cmocka_unit_test(test_a_rank_that_does_something_else),
        cmocka_unit_test(test_a_rank_that_comes_too_late),
        cmocka_unit_test(test_ranks_that_call_something_else),
    };
    return run_flight_tests(tests, sizeof tests / sizeof tests[0]);
}
