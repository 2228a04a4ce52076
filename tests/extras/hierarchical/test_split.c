/* Groups within a group: their members, their results, and the rank named when one fails. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "05_fault_tolerance/checks/reduce_order.h"
#include "common/base/log.h"
#include "extras/hierarchical/split.h"
#include "tests/extras/hierarchical/split_cases.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

#define LARGE 300000 // floats; more than the kernel buffers for a rank that does not read

static float data[LARGE];

static void cases_body(Rank *rank)
{
    ProcessGroup pg;
    rank_join(rank, &pg);
    split_cases_run(&pg);
    process_group_destroy(&pg);
}

static void test_parts_of_any_shape(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 5; world_size++)
        ranks_run_well(world_size, cases_body, NULL);
}

/* With --reduce-order fixed, a subgroup may have any size, and adds in any order. */
static void fixed_body(Rank *rank)
{
    ProcessGroup pg, part;
    rank->args.reduce_order = ORDER_FIXED;
    reduce_order_check(&rank->args, rank->world_size);
    rank_join(rank, &pg);
    reduce_order_set(&rank->args, &pg);
    process_group_split(&part, &pg, rank->rank == 0);
    const double sum = all_reduce_scalar(&part, rank->rank, REDUCE_SUM);
    CHECK(sum == (rank->rank == 0 ? 0 : 6), "the part's sum is %g", sum);
    subgroup_free(&part);
    process_group_destroy(&pg);
}

static void test_fixed_order_of_the_group(void **state)
{
    (void)state;
    ranks_run_well(4, fixed_body, NULL);
}

/* Ranks 1 to 3 are a subgroup in which rank 3 skips the others' call; rank 0 is busy. */
typedef struct {
    void (*instead)(ProcessGroup *pg, ProcessGroup *sub); // rank 3's action
    const char *text; // the error on ranks 1 and 2
} Failure;

static void die_there(ProcessGroup *pg, ProcessGroup *sub)
{
    (void)pg, (void)sub;
    raise(SIGKILL);
}

static void stop_there(ProcessGroup *pg, ProcessGroup *sub)
{
    (void)pg, (void)sub;
    raise(SIGSTOP);
}

static void sum_of_fewer(ProcessGroup *pg, ProcessGroup *sub)
{
    (void)pg;
    all_reduce(sub, data, 7, FLOAT32, REDUCE_SUM);
}

static void sum_of_all(ProcessGroup *pg, ProcessGroup *sub)
{
    (void)sub;
    all_reduce(pg, data, LARGE, FLOAT32, REDUCE_SUM);
}

static void broadcast_from_itself(ProcessGroup *pg, ProcessGroup *sub)
{
    (void)pg;
    broadcast(sub, data, 10, FLOAT32, 2);
}

#define OURS "all_reduce #0 of 300000 float32 (sum) in group \"split 0 color 1\""

static const Failure failures[] = {
    { die_there, "rank 3 is gone: connection closed during " OURS },
    { stop_there, "rank 3 is missing in " OURS },
    { sum_of_fewer, "rank 3 calls all_reduce #0 of 7 float32 (sum) in group \"split 0 color 1\"" },
    { sum_of_all, "rank 3 calls all_reduce #1 of 300000 float32 (sum)" },
    { broadcast_from_itself,
      "rank 3 calls broadcast #0 of 10 float32 from rank 3 in group \"split 0 color 1\"" },
};

static void failing_body(Rank *rank)
{
    const Failure *failure = rank->context;
    ProcessGroup pg, sub;
    rank_join(rank, &pg);
    process_group_split(&sub, &pg, rank->rank > 0);
    if (rank->rank == 0) {
        pg_send(&pg, data, 1, FLOAT32, 3);
        raise(SIGSTOP); // otherwise it would name the culprit first, in another call
    }
    if (rank->rank < 3) { // so that all four are past the split first
        pg_send(&sub, data, 1, FLOAT32, 2);
    } else {
        pg_recv(&pg, data, 1, FLOAT32, 0);
        pg_recv(&sub, data, 1, FLOAT32, 0);
        pg_recv(&sub, data, 1, FLOAT32, 1);
    }
    if (rank->rank == 3)
        failure->instead(&pg, &sub);
    else
        all_reduce(&sub, data, LARGE, FLOAT32, REDUCE_SUM);
    barrier(&sub);
}

static void test_failures_name_the_group_and_the_global_rank(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        RankEnd end[MAX_RANKS];
        if (failures[i].instead == stop_there)
            ranks_run_into_timeout(4, 4, failing_body, (void *)&failures[i], failures[i].text, end);
        else
            ranks_run(4, failing_body, (void *)&failures[i], end);
        for (int rank = 1; rank <= 2; rank++) {
            expect_error(end, rank, failures[i].text);
            expect_error(end, rank, OURS);
        }
    }
}

static void distant_root_body(Rank *rank)
{
    ProcessGroup pg, sub;
    rank_join(rank, &pg);
    process_group_split(&sub, &pg, 0);
    broadcast(&sub, data, 1, FLOAT32, 1000000000); // must not be used as an index
}

static void test_mistakes(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(1, distant_root_body, NULL, end);
    expect_error(end, 0, "broadcast: there is no rank 1000000000: ranks are numbered from 0 to 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_of_any_shape),
        cmocka_unit_test(test_fixed_order_of_the_group),
        cmocka_unit_test(test_failures_name_the_group_and_the_global_rank),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
