/* The Reducer: which buckets there are, in which order they travel, and what arrives. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/rng.h"
#include "common/dist/ddp.h"
#include "tests/ranks.h"

#define MAX_PARAMETERS 32
#define MAX_SECONDS 30

/* Parameters one after the other, like a model's. */
typedef struct {
    Tensor parameter[MAX_PARAMETERS];
    int num_parameters;
    size_t numel;
} Parameters;

static Parameters parameters_of(const size_t *sizes, int num_sizes)
{
    static const char *const names[] = { "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7",
                                         "p8", "p9", "pa", "pb", "pc", "pd", "pe", "pf" };
    Parameters p = { .num_parameters = num_sizes };
    for (int i = 0; i < num_sizes; i++) {
        p.parameter[i] = (Tensor){ .name = names[i % 16], .offset = p.numel, .numel = sizes[i] };
        p.numel += sizes[i];
    }
    return p;
}

/* conv1.weight, conv1.bias, conv2.weight, conv2.bias, fc1.weight, fc1.bias, fc2.weight, fc2.bias */
static const size_t cnn_sizes[] = { 288, 32, 18432, 64, 1179648, 128, 1280, 10 };

static void expect_buckets(const size_t *sizes, int num_sizes, double cap_mb,
                           const char *num_parameters)
{
    const Parameters p = parameters_of(sizes, num_sizes);
    const Args args = { .bucket_cap_mb = cap_mb };
    Reducer reducer;
    reducer_init(&reducer, &args, NULL, NULL, p.parameter, p.num_parameters);

    char got[256] = "";
    size_t end = p.numel;
    int i = p.num_parameters;
    for (int b = 0; b < reducer.num_buckets; b++) {
        const Bucket *bucket = &reducer.bucket[b];
        sprintf(got + strlen(got), "%s%d", b > 0 ? " " : "", bucket->num_parameters);
        assert_int_equal(bucket->offset + bucket->numel, end); // together they are all gradients
        end = bucket->offset;
        for (int k = 0; k < bucket->num_parameters; k++)
            assert_int_equal(reducer.bucket_of[--i], b);
        assert_int_equal(bucket->offset, p.parameter[i].offset);
    }
    assert_int_equal(end, 0);
    assert_int_equal(i, 0);
    if (num_parameters != NULL)
        assert_string_equal(got, num_parameters);
    reducer_free(&reducer);
}

/* By PyTorch's rule: a tensor is added to the bucket, then the bucket closes if it has reached its
 * limit, which is 1 MiB for the first and the cap for the others. From the last parameter on. */
static void test_buckets_are_pytorchs(void **state)
{
    (void)state;
    expect_buckets(cnn_sizes, 8, 25, "4 4"); // the four of fc close at fc1.weight, 4.5 MiB
    expect_buckets(cnn_sizes, 8, 1000, "4 4");
    expect_buckets(cnn_sizes, 8, 0.05, "4 2 2"); // 52,429 bytes: conv2.weight has 73,728
    expect_buckets(cnn_sizes, 8, 0.005, "3 1 2 2"); // 5,243: fc2 has 5,160, with fc1.bias 5,672
    expect_buckets(cnn_sizes, 8, 0.001, "2 2 2 2"); // 1,049: conv1 has 1,280
    expect_buckets(cnn_sizes, 8, 1e-9, "1 1 1 1 1 1 1 1");

    size_t halves[11]; // of a MiB
    for (int i = 0; i < 11; i++)
        halves[i] = 128 * 1024;
    expect_buckets(halves, 11, 25, "2 9");
    expect_buckets(halves, 11, 2, "2 4 4 1");
    expect_buckets(halves, 11, 1.75, "2 4 4 1");
    expect_buckets(halves, 11, 1.5, "2 3 3 3");
    expect_buckets(halves, 11, 0.75, "2 2 2 2 2 1");
    expect_buckets(halves, 11, 0.5, "1 1 1 1 1 1 1 1 1 1 1");
    expect_buckets(halves, 1, 25, "1");
}

static void test_buckets_cover_gradients_of_any_sizes(void **state)
{
    (void)state;
    Rng rng;
    rng_seed(&rng, 1);
    for (int i = 0; i < 200; i++) {
        size_t sizes[MAX_PARAMETERS];
        const int num_sizes = 1 + (int)(rng_next(&rng) % MAX_PARAMETERS);
        for (int k = 0; k < num_sizes; k++)
            sizes[k] = rng_next(&rng) % (1u << rng_next(&rng) % 20);
        expect_buckets(sizes, num_sizes, exp2(rng_uniform_between(&rng, -20, 5)), NULL);
    }
}

/* ---- with ranks ---- */

static const size_t sizes[] = { 9, 1, 300, 7, 20000, 128, 64, 10, 1 };
#define NUM_PARAMETERS 9

/* A group, parameters and their gradients, and a reducer over them. */
typedef struct {
    ProcessGroup pg;
    Parameters p;
    float *grads;
    Reducer reducer;
} Training;

static void training_init(Training *t, Rank *rank, double cap_mb)
{
    rank_join(rank, &t->pg);
    t->p = parameters_of(sizes, NUM_PARAMETERS);
    t->grads = mem_calloc(t->p.numel, sizeof *t->grads);
    rank->args.bucket_cap_mb = cap_mb;
    reducer_init(&t->reducer, &rank->args, &t->pg, t->grads, t->p.parameter, NUM_PARAMETERS);
}

static void training_free(Training *t)
{
    reducer_free(&t->reducer);
    free(t->grads);
    process_group_destroy(&t->pg);
}

/* What rank adds to gradient k in a pass: whole numbers, of which sums are exact. */
static float gradient(int rank, int pass, size_t k)
{
    return (float)((k * 3 + (size_t)rank * 5 + (size_t)pass * 7) % 16);
}

static void backward_parameter(Training *t, int pass, int i)
{
    const Tensor *p = &t->p.parameter[i];
    for (size_t k = p->offset; k < p->offset + p->numel; k++)
        t->grads[k] += gradient(t->pg.rank, pass, k);
    reducer_mark_ready(&t->reducer, i);
}

static void zero_grad(Training *t)
{
    memset(t->grads, 0, t->p.numel * sizeof *t->grads);
}

/* Every pass the parameters become ready in another order, on every rank in its own. */
static void backward(Training *t, int pass)
{
    Rng rng;
    size_t order[NUM_PARAMETERS];
    rng_seed(&rng, (uint64_t)(pass * 10 + t->pg.rank));
    rng_permutation(&rng, order, NUM_PARAMETERS);
    for (int i = 0; i < NUM_PARAMETERS; i++)
        backward_parameter(t, pass, (int)order[i]);
}

/* Parameter i must hold the mean over ranks of the sum over passes first..last. */
static void expect_mean(const Training *t, int i, int first, int last)
{
    const Tensor *p = &t->p.parameter[i];
    for (size_t k = p->offset; k < p->offset + p->numel; k++) {
        float sum = 0;
        for (int rank = 0; rank < t->pg.world_size; rank++)
            for (int pass = first; pass <= last; pass++)
                sum += gradient(rank, pass, k);
        const float mean = sum / (float)t->pg.world_size;
        CHECK(t->grads[k] == mean, "gradient %zu of %s is %.9g, not %.9g", k, p->name, t->grads[k],
              mean);
    }
}

static void mean_body(Rank *rank)
{
    const double caps[] = { 1e-9, 1e-4, 1e-3, 1e-2, 0.1, 25 };
    for (size_t c = 0; c < sizeof caps / sizeof caps[0]; c++) {
        Training t;
        training_init(&t, rank, caps[c]);
        for (int pass = 0; pass < 3; pass++) {
            zero_grad(&t);
            backward(&t, pass);
            reducer_finalize(&t.reducer);
            for (int i = 0; i < NUM_PARAMETERS; i++)
                expect_mean(&t, i, pass, pass);
        }
        training_free(&t);
    }
}

static void test_gradients_are_the_mean_whatever_the_buckets_and_the_order(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 4; world_size++)
        ranks_run_well(world_size, MAX_SECONDS, mean_body, NULL);
}

static void order_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 1e-9); // a bucket for each parameter
    const uint64_t before = t.pg.sequence;
    for (int i = 0; i < NUM_PARAMETERS - 1; i++) {
        backward_parameter(&t, 0, i); // from the wrong end: all wait for bucket 0
        CHECK(t.pg.sequence == before, "bucket %d was sent before bucket 0",
              NUM_PARAMETERS - 1 - i);
    }
    backward_parameter(&t, 0, NUM_PARAMETERS - 1);
    CHECK(t.pg.sequence == before + NUM_PARAMETERS, "not all buckets were sent");
    reducer_finalize(&t.reducer);

    for (int i = NUM_PARAMETERS - 1; i >= 0; i--) { // from the right one: each leaves at once
        backward_parameter(&t, 1, i);
        CHECK(t.reducer.next == NUM_PARAMETERS - i,
              "%d buckets are on their way after %d gradients", t.reducer.next, NUM_PARAMETERS - i);
    }
    reducer_finalize(&t.reducer);
    training_free(&t);
}

static void test_buckets_leave_early_and_in_index_order(void **state)
{
    (void)state;
    ranks_run_well(2, MAX_SECONDS, order_body, NULL);
}

static void no_sync_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 1e-3);
    for (int round = 0; round < 2; round++) {
        zero_grad(&t);
        const uint64_t before = t.pg.sequence;
        reducer_set_sync(&t.reducer, false);
        for (int pass = 0; pass < 3; pass++) {
            backward(&t, pass);
            reducer_finalize(&t.reducer);
        }
        CHECK(t.pg.sequence == before, "no_sync sends");
        reducer_set_sync(&t.reducer, true);
        backward(&t, 3);
        reducer_finalize(&t.reducer);
        for (int i = 0; i < NUM_PARAMETERS; i++)
            expect_mean(&t, i, 0, 3);
    }
    training_free(&t);
}

static void test_no_sync_adds_up_and_sends_once(void **state)
{
    (void)state;
    ranks_run_well(1, MAX_SECONDS, no_sync_body, NULL);
    ranks_run_well(3, MAX_SECONDS, no_sync_body, NULL);
}

/* Parameter 2 is used by the last rank only, 4 in a pass without sync only, 6 by nobody. */
static void unused_body(Rank *rank)
{
    const double caps[] = { 1e-9, 1e-3, 25 };
    for (size_t c = 0; c < sizeof caps / sizeof caps[0]; c++) {
        Training t;
        training_init(&t, rank, caps[c]);
        t.reducer.find_unused_parameters = true;
        const bool last = rank->rank == rank->world_size - 1;
        backward(&t, 1); // once all of them
        reducer_finalize(&t.reducer);
        for (int round = 0; round < 2; round++) {
            zero_grad(&t);
            const Tensor *untouched = &t.p.parameter[6];
            for (size_t k = 0; k < untouched->numel; k++)
                t.grads[untouched->offset + k] = 0.1f + (float)rank->rank;

            reducer_set_sync(&t.reducer, false);
            backward_parameter(&t, 0, 4);
            reducer_finalize(&t.reducer);
            reducer_set_sync(&t.reducer, true);
            for (int i = NUM_PARAMETERS - 1; i >= 0; i--)
                if (i != 4 && i != 6 && (i != 2 || last))
                    backward_parameter(&t, 0, i);
            reducer_finalize(&t.reducer);

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
        training_free(&t);
    }
}

static void test_unused_parameters(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 3; world_size++)
        ranks_run_well(world_size, MAX_SECONDS, unused_body, NULL);
}

static void identical_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 1e-3);
    for (size_t k = 0; k < t.p.numel; k++)
        t.grads[k] = sinf((float)k + (float)rank->rank) / 3;
    for (int i = NUM_PARAMETERS - 1; i >= 0; i--)
        reducer_mark_ready(&t.reducer, i);
    reducer_finalize(&t.reducer);

    float *rank_0s = mem_calloc(t.p.numel, sizeof *rank_0s);
    memcpy(rank_0s, t.grads, t.p.numel * sizeof *rank_0s);
    broadcast(&t.pg, rank_0s, t.p.numel, FLOAT32, 0);
    CHECK(memcmp(rank_0s, t.grads, t.p.numel * sizeof *rank_0s) == 0, "other bits than rank 0's");
    free(rank_0s);
    training_free(&t);
}

static void test_replicas_get_the_same_bits(void **state)
{
    (void)state;
    for (int world_size = 2; world_size <= 5; world_size++)
        ranks_run_well(world_size, MAX_SECONDS, identical_body, NULL);
}

/* ---- mistakes, all of them of rank 1 ---- */

static void forgotten_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 25);
    for (int i = 0; i < NUM_PARAMETERS; i++)
        if (i != 3 || rank->rank == 0)
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

static void expect_error(void (*body)(Rank *rank), int rank, const char *text)
{
    RankEnd end[MAX_RANKS];
    ranks_run(2, MAX_SECONDS, body, NULL, end);
    if (end[rank].status != EXIT_FAILURE || strstr(end[rank].errors, text) == NULL)
        fail_msg("status %d and \"%s\", not \"%s\"", end[rank].status, end[rank].errors, text);
}

static void test_mistakes_are_named(void **state)
{
    (void)state;
    expect_error(forgotten_body, 1,
                 "parameter p3 got no gradient: let the loss depend on it, or set "
                 "find_unused_parameters");
    expect_error(forgotten_body, 0, "rank 1 is gone");
    expect_error(twice_body, 1,
                 "parameter p3 is marked ready twice: call reducer_finalize after every");
    expect_error(switched_body, 1, "buckets are on their way: call reducer_finalize before");
}

static void gap_body(Rank *rank)
{
    Parameters p = parameters_of(sizes, NUM_PARAMETERS);
    p.parameter[3].offset++;
    Reducer reducer;
    reducer_init(&reducer, &rank->args, NULL, NULL, p.parameter, NUM_PARAMETERS);
}

static void too_many_body(Rank *rank)
{
    static Tensor parameter[REDUCER_MAX_PARAMETERS + 1];
    Reducer reducer;
    reducer_init(&reducer, &rank->args, NULL, NULL, parameter, REDUCER_MAX_PARAMETERS + 1);
}

static void test_parameters_that_do_not_fit(void **state)
{
    (void)state;
    expect_error(gap_body, 0, "parameter p3 does not lie right before its successor");
    expect_error(too_many_body, 0, "257 parameters: the reducer has room for 256");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_are_pytorchs),
        cmocka_unit_test(test_buckets_cover_gradients_of_any_sizes),
        cmocka_unit_test(test_gradients_are_the_mean_whatever_the_buckets_and_the_order),
        cmocka_unit_test(test_buckets_leave_early_and_in_index_order),
        cmocka_unit_test(test_no_sync_adds_up_and_sends_once),
        cmocka_unit_test(test_unused_parameters),
        cmocka_unit_test(test_replicas_get_the_same_bits),
        cmocka_unit_test(test_mistakes_are_named),
        cmocka_unit_test(test_parameters_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
