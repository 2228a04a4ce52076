/* Every collective of a backend, in groups of 1 to 5 ranks. DDP_TEST_BACKEND names the backend. */
#include <stdlib.h>

#include "tests/common/comm/collective_cases.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

static void body(Rank *rank)
{
    const char *backend = getenv("DDP_TEST_BACKEND");
    if (backend != NULL)
        option_set(args_option("backend"), &rank->args, backend, NULL);
    ProcessGroup pg;
    rank_join(rank, &pg);
    collective_cases_run(&pg);
    process_group_destroy(&pg);
}

static void test_1_rank(void **state)
{
    (void)state;
    ranks_run_well(1, body, NULL);
}

static void test_2_ranks(void **state)
{
    (void)state;
    ranks_run_well(2, body, NULL);
}

static void test_3_ranks(void **state)
{
    (void)state;
    ranks_run_well(3, body, NULL);
}

static void test_4_ranks(void **state)
{
    (void)state;
    ranks_run_well(4, body, NULL);
}

static void test_5_ranks(void **state)
{
    (void)state;
    ranks_run_well(5, body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1_rank),  cmocka_unit_test(test_2_ranks),
        cmocka_unit_test(test_3_ranks), cmocka_unit_test(test_4_ranks),
        cmocka_unit_test(test_5_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
