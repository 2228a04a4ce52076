/* Tied and frozen parameters: when their buckets are sent, and which are in no bucket. */

#include "common/base/log.h"
#include "tests/common/comm/ddp_training.h"
#include "tests/helpers/exact.h"
#include "tests/helpers/unit.h"

// Parameter 2 is used by two layers and 5 by three; 4 and 8 are frozen.
static const int uses[NUM_PARAMETERS] = { 1, 1, 2, 1, 0, 3, 1, 1, 0 };

/* The backward pass: each use adds its gradient. */
static void backward_uses(Training *t, int pass)
{
    for (int i = NUM_PARAMETERS - 1; i >= 0; i--)
        for (int use = 0; use < uses[i]; use++)
            backward_parameter(t, pass, i);
}

static void expect_uses(const Training *t, int pass)
{
    for (int i = 0; i < NUM_PARAMETERS; i++) {
        const Tensor *p = &t->p.parameter[i];
        for (size_t k = p->offset; k < p->offset + p->numel; k++) {
            float sum = 0;
            for (int rank = 0; rank < t->pg.world_size; rank++)
                sum += (float)uses[i] * gradient(rank, pass, k);
            CHECK(t->grads[k] == sum / (float)t->pg.world_size, "gradient %zu of %s is %g", k,
                  p->name, t->grads[k]);
        }
    }
}

static void mean_body(Rank *rank)
{
    const double caps[] = { 1e-9, 1e-3, 25 };
    for (size_t c = 0; c < sizeof caps / sizeof caps[0]; c++) {
        Training t;
        training_init(&t, rank, caps[c]);
        reducer_set_uses(&t.reducer, uses);
        for (int pass = 0; pass < 3; pass++) {
            zero_grad(&t);
            backward_uses(&t, pass);
            reducer_finalize(&t.reducer);
            expect_uses(&t, pass);
        }
        training_free(&t);
    }
}

static void test_a_tied_gradient_is_the_mean_of_all_its_uses(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 4; world_size++)
        ranks_run_well(world_size, mean_body, NULL);
}

static void last_use_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 1e-9); // a bucket for each parameter
    reducer_set_uses(&t.reducer, uses);
    CHECK(t.reducer.num_buckets == 7, "%d buckets", t.reducer.num_buckets);
    const uint64_t before = t.pg.sequence;
    for (int i = 7; i > 5; i--)
        backward_parameter(&t, 0, i);
    for (int use = 1; use <= 3; use++) {
        CHECK(t.pg.sequence == before + 2, "a bucket left before use %d", use);
        backward_parameter(&t, 0, 5);
    }
    CHECK(t.pg.sequence == before + 3, "the tied parameter did not leave after its last use");
    for (int i = 3; i >= 0; i--)
        for (int use = 0; use < uses[i]; use++)
            backward_parameter(&t, 0, i);
    reducer_finalize(&t.reducer);
    CHECK(t.pg.sequence == before + 7, "a frozen parameter was sent, or another one was not");
    training_free(&t);
}

static void test_a_tied_parameter_leaves_once_after_its_last_use(void **state)
{
    (void)state;
    ranks_run_well(2, last_use_body, NULL);
}

/* The frozen parameter 4 has 20,000 elements; p8 is the last one. */
static void test_frozen_parameters_are_in_no_bucket(void **state)
{
    (void)state;
    const Parameters p = training_parameters();
    const Args args = { .bucket_cap_mb = 25 };
    Reducer reducer;
    reducer_init(&reducer, &args, &(ProcessGroup){ 0 }, NULL, p.parameter, NUM_PARAMETERS);
    assert_int_equal(reducer.num_buckets, 1);
    reducer_set_uses(&reducer, uses);
    assert_int_equal(reducer.num_buckets, 2);
    assert_int_equal(reducer.bucket[0].offset, p.parameter[5].offset);
    assert_int_equal(reducer.bucket[0].numel, 128 + 64 + 10);
    assert_int_equal(reducer.bucket[0].pending, 3 + 1 + 1);
    assert_int_equal(reducer.bucket[1].offset, 0);
    assert_int_equal(reducer.bucket[1].numel, 9 + 1 + 300 + 7);
    assert_int_equal(reducer.bucket[1].pending, 1 + 1 + 2 + 1);

    // A spare float stays behind the gradients when the buckets are planned anew.
    const int all_used[NUM_PARAMETERS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    static float grads[1 << 15];
    reducer_set_uses(&reducer, all_used);
    reducer.grads = grads;
    const Tensor *last = &p.parameter[NUM_PARAMETERS - 1];
    assert_ptr_equal(reducer_spare(&reducer), grads + last->offset + last->numel);
    reducer.bucket_cap_mb = 1e-9; // a bucket for each parameter
    assert_ptr_equal(reducer_spare(&reducer), grads + last->offset + last->numel);
    const size_t numel = reducer.bucket[0].numel;
    reducer_set_uses(&reducer, all_used);
    assert_int_equal(reducer.bucket[0].numel, numel);
    reducer.has_spare = false;

    reducer_set_uses(&reducer, (int[NUM_PARAMETERS]){ 0 }); // all frozen
    assert_int_equal(reducer.num_buckets, 0);
    reducer_finalize(&reducer);
    reducer_free(&reducer);
}

/* Rank 1's mistakes: one use too few, one too many, a gradient for a frozen parameter. The use too
 * many only reports, because writing the gradient, which is being sent, would be a race. */
static void mistake_body(Rank *rank)
{
    static const int extra[] = { -1, 1, 1 }, parameter[] = { 5, 5, 8 };
    const int *mistake = rank->context;
    Training t;
    training_init(&t, rank, 25);
    reducer_set_uses(&t.reducer, uses);
    for (int i = NUM_PARAMETERS - 1; i >= 0; i--) {
        const int more = rank->rank == 1 && i == parameter[*mistake] ? extra[*mistake] : 0;
        for (int use = 0; use < uses[i] + (more < 0 ? more : 0); use++)
            backward_parameter(&t, 0, i);
        if (more > 0)
            reducer_mark_ready(&t.reducer, i);
    }
    reducer_finalize(&t.reducer);
}

/* The last parameter is frozen. */
static void spare_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 25);
    reducer_set_uses(&t.reducer, uses);
    reducer_spare(&t.reducer);
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "parameter p5 got no gradient",
        "parameter p5 is marked ready twice: two backward passes without reducer_finalize between "
        "them, or more layers share it than reducer_set_uses says",
        "parameter p8 is frozen (reducer_set_uses), but gets a gradient",
    };
    RankEnd end[MAX_RANKS];
    for (int i = 0; i < 3; i++) {
        ranks_run(2, mistake_body, &i, end);
        expect_error(end, 1, texts[i]);
    }
    ranks_run(2, spare_body, NULL, end);
    expect_error(end, 1, "parameter p8 is frozen, so no float can travel behind its gradient");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tied_gradient_is_the_mean_of_all_its_uses),
        cmocka_unit_test(test_a_tied_parameter_leaves_once_after_its_last_use),
        cmocka_unit_test(test_frozen_parameters_are_in_no_bucket),
        cmocka_unit_test(test_mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
