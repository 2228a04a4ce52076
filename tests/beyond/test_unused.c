/* Passes that do not use every parameter: which gradients are averaged, and which are not. */

#include "beyond/unused/unused.h"
#include "common/base/log.h"
#include "tests/common/comm/ddp_training.h"
#include "tests/helpers/unit.h"

/* Adds the gradient of parameter i, as a part of the backward pass. */
static void use(Unused *unused, Training *t, int i)
{
    const Tensor *p = &t->p.parameter[i];
    for (size_t k = p->offset; k < p->offset + p->numel; k++)
        t->grads[k] += gradient(t->pg.rank, 0, k);
    unused_mark_ready(unused, i);
}

/* Parameter 2 is used by the last rank only, 4 in a pass without sync only, 6 by no rank. */
static void unused_body(Rank *rank)
{
    const double caps[] = { 1e-9, 1e-3, 25 };
    for (size_t c = 0; c < sizeof caps / sizeof caps[0]; c++) {
        Training t;
        training_init(&t, rank, caps[c]);
        Unused unused;
        unused_init(&unused, &t.reducer);
        const bool last = rank->rank == rank->world_size - 1;
        for (int i = 0; i < NUM_PARAMETERS; i++) // uses all of them once
            use(&unused, &t, i);
        unused_finalize(&unused);
        for (int round = 0; round < 2; round++) {
            zero_grad(&t);
            const Tensor *untouched = &t.p.parameter[6];
            for (size_t k = 0; k < untouched->numel; k++)
                t.grads[untouched->offset + k] = 0.1f + (float)rank->rank;

            reducer_set_sync(&t.reducer, false);
            use(&unused, &t, 4);
            unused_finalize(&unused);
            reducer_set_sync(&t.reducer, true);
            for (int i = NUM_PARAMETERS - 1; i >= 0; i--)
                if (i != 4 && i != 6 && (i != 2 || last))
                    use(&unused, &t, i);
            unused_finalize(&unused);

            for (int i = 0; i < NUM_PARAMETERS; i++)
                if (i != 2 && i != 6)
                    expect_mean(&t, i, 0, 0);
            const Tensor *p = &t.p.parameter[2];
            for (size_t k = p->offset; k < p->offset + p->numel; k++) {
                const float mean = gradient(t.pg.world_size - 1, 0, k) / (float)t.pg.world_size;
                CHECK(t.grads[k] == mean, "gradient %zu of p2 is %g, not %g", k, t.grads[k], mean);
            }
            for (size_t k = 0; k < untouched->numel; k++)
                CHECK(t.grads[untouched->offset + k] == 0.1f + (float)rank->rank,
                      "the gradient of an unused parameter was touched");
        }
        unused_free(&unused);
        training_free(&t);
    }
}

static void test_unused_parameters(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 3; world_size++)
        ranks_run_well(world_size, unused_body, NULL);
}

static void gpu_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 25);
    t.pg.place.on_gpu = true;
    unused_init(&(Unused){ 0 }, &t.reducer);
}

static void test_gpus_are_refused(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(1, gpu_body, NULL, end);
    assert_int_equal(end[0].status, 2);
    assert_non_null(strstr(end[0].errors, "find_unused_parameters is for --device cpu"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unused_parameters),
        cmocka_unit_test(test_gpus_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
