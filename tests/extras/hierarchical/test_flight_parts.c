/* Flight records of calls on subgroups. */
#include "extras/hierarchical/split.h"
#include "tests/steps/05_fault_tolerance/flight_run.h"

/* Rank 3 dies in a subgroup; rank 2 waits for it there, and ranks 0 and 1 for both of them. */
static void parts_body(Rank *rank)
{
    ProcessGroup pg, part;
    join(rank, &pg);
    process_group_split(&part, &pg, rank->rank / 2);
    run_barrier(&part);
    if (rank->rank == 3) {
        await_call(2, 3, false);
        await_call(0, 4, false);
        await_call(1, 4, false);
        raise(SIGKILL);
    }
    sum(&part);
    sum(&pg);
}

static void test_the_end_of_a_chain_is_named(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(4, parts_body, NULL, end);
    expect_verdict(false, " wait");
    expect_verdict(false, " for rank 3. Rank 3 (process ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_end_of_a_chain_is_named),
    };
    return run_flight_tests(tests, sizeof tests / sizeof tests[0]);
}
