/* Mistakes in the use of the Reducer: messages name the rank, the mistake and the fix. */

#include <stdio.h>

#include "tests/common/comm/ddp_training.h"
#include "tests/helpers/unit.h"

/* In all three bodies rank 1 makes the mistake. Here it forgets the parameter in its context. */
static void forgotten_body(Rank *rank)
{
    const int forgotten = *(const int *)rank->context;
    Training t;
    training_init(&t, rank, 25);
    for (int i = 0; i < NUM_PARAMETERS; i++)
        if (i != forgotten || rank->rank == 0)
            backward_parameter(&t, 0, i);
    reducer_finalize(&t.reducer);
}

static void twice_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 25);
    backward(&t, 0);
    if (rank->rank == 1)
        reducer_mark_ready(&t.reducer, 3); // without reducer_finalize
    reducer_finalize(&t.reducer);
    training_free(&t);
}

static void switched_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 1e-9);
    backward(&t, 0);
    if (rank->rank == 1)
        reducer_set_sync(&t.reducer, false);
    reducer_finalize(&t.reducer);
    training_free(&t);
}

static void expect_mistake(void (*body)(Rank *rank), int rank, const char *text)
{
    RankEnd end[MAX_RANKS];
    ranks_run(2, body, NULL, end);
    expect_error(end, rank, text);
}

static void test_forgotten_parameters_are_named(void **state)
{
    (void)state;
    static const int forgotten[] = { 0, 3, NUM_PARAMETERS - 1 };
    for (int i = 0; i < 3; i++) {
        RankEnd end[MAX_RANKS];
        char text[160];
        ranks_run(2, forgotten_body, (void *)&forgotten[i], end);
        snprintf(text, sizeof text,
                 "parameter p%d got no gradient: let the loss depend on it, or use beyond/unused "
                 "(find_unused_parameters)",
                 forgotten[i]);
        expect_error(end, 1, text);
        expect_error(end, 0, "rank 1 is gone");
    }
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    expect_mistake(
        twice_body, 1,
        "parameter p3 is marked ready twice: two backward passes without reducer_finalize "
        "between them, or more layers share it than reducer_set_uses says");
    expect_mistake(switched_body, 1, "buckets are on their way: call reducer_finalize before");
}

static void gap_body(Rank *rank)
{
    Parameters p = training_parameters();
    p.parameter[3].offset++;
    Reducer reducer;
    reducer_init(&reducer, &rank->args, &(ProcessGroup){ 0 }, NULL, p.parameter, NUM_PARAMETERS);
}

static void test_parameters_that_do_not_fit(void **state)
{
    (void)state;
    expect_mistake(gap_body, 0, "parameter p3 does not lie right before its successor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forgotten_parameters_are_named),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_parameters_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
