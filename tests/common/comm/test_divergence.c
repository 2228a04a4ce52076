/* A diverged training ends on all ranks, and rank 0 names the ranks whose loss diverged first. */
#include <malloc.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

static void body(Rank *rank)
{
    const Divergence *found = rank->context;
    ProcessGroup pg;
    rank_join(rank, &pg);
    log_set_rank(rank->rank, rank->world_size);
    if (rank->rank == 1)
        all_check_divergence(&pg, &rank->args, (Divergence){ .loss = 3 }); // no rank waits for it
    all_check_divergence(&pg, &rank->args, found[rank->rank]);
    process_group_destroy(&pg);
}

static void check(const Divergence found[3], const char *text)
{
    RankEnd end[MAX_RANKS];
    ranks_run(3, body, (void *)found, end);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(end[rank].status, 1);
    expect_error(end, 0, text);
    assert_string_equal(end[1].errors, "");
    assert_string_equal(end[2].errors, "");
}

static void test_ranks_are_named(void **state)
{
    (void)state;
    check((Divergence[]){ { 6, 6 }, { 5, 6 }, { 6, 6 } },
          "after step 6, and the loss since step 5 on rank 1: try a smaller --lr than");
    check((Divergence[]){ { 5, 6 }, { 0, 6 }, { 5, 6 } },
          "after step 6, and the loss since step 5 on ranks 0 and 2: try");
    check((Divergence[]){ { 1, 6 }, { 2, 6 }, { 0, 6 } },
          "after step 6, and the loss since step 1 on rank 0: try");
    check((Divergence[]){ { 0, 6 }, { 0, 6 }, { 0, 6 } },
          "after step 6, though no rank's loss is yet: try");
}

/* Goes on, and keeps no memory. */
static void warning_body(Rank *rank)
{
    const Divergence *found = rank->context;
    ProcessGroup pg;
    size_t bytes[20]; // the C library's caches are full by then
    rank->args.on_nan = ON_NAN_WARN;
    rank_join(rank, &pg);
    log_set_rank(rank->rank, rank->world_size);
    for (int i = 0; i < 20; i++) {
        all_check_divergence(&pg, &rank->args, found[rank->rank]);
        bytes[i] = mallinfo2().uordblks;
    }
    CHECK(bytes[19] == bytes[18], "%zu bytes, and then %zu", bytes[18], bytes[19]);
    process_group_destroy(&pg);
}

static void test_warning(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    Divergence found[] = { { 5, 6 }, { 5, 6 } };
    ranks_run(2, warning_body, found, end);
    assert_int_equal(end[0].status, 0);
    assert_int_equal(end[1].status, 0);
    assert_non_null(strstr(end[0].errors, "warning: training diverged: weights are nan or "));
    assert_string_equal(end[1].errors, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_are_named),
        cmocka_unit_test(test_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
