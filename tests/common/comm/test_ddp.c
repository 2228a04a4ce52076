/* The Reducer at work: the order in which buckets are sent, and the results. */
#include <math.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "tests/common/comm/ddp_training.h"
#include "tests/helpers/unit.h"

static void mean_body(Rank *rank)
{
    const double caps[] = { 1e-9, 1e-4, 1e-3, 1e-2, 0.1, 25 };
    for (size_t c = 0; c < sizeof caps / sizeof caps[0]; c++) {
        Training t;
        training_init(&t, rank, caps[c]);
        expect_means(&t);
        training_free(&t);
    }
}

static void test_gradients_are_the_mean_whatever_the_buckets_and_the_order(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 4; world_size++)
        ranks_run_well(world_size, mean_body, NULL);
}

static void order_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 1e-9); // a bucket for each parameter
    const uint64_t before = t.pg.sequence;
    for (int i = 0; i < NUM_PARAMETERS - 1; i++) {
        backward_parameter(&t, 0, i); // in the wrong order: all wait for bucket 0
        CHECK(t.pg.sequence == before, "bucket %d was sent before bucket 0",
              NUM_PARAMETERS - 1 - i);
    }
    backward_parameter(&t, 0, NUM_PARAMETERS - 1);
    CHECK(t.pg.sequence == before + NUM_PARAMETERS, "not all buckets were sent");
    reducer_finalize(&t.reducer);

    for (int i = NUM_PARAMETERS - 1; i >= 0; i--) { // in the right order: each is sent at once
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
    ranks_run_well(2, order_body, NULL);
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
    ranks_run_well(1, no_sync_body, NULL);
    ranks_run_well(3, no_sync_body, NULL);
}

/* A hook that counts its buckets and sends the negated gradients. */
static int num_hooked;

static Work negate_hook(void *state, float *grads, size_t numel)
{
    ProcessGroup *pg = state;
    num_hooked++;
    for (size_t k = 0; k < numel; k++)
        grads[k] = -grads[k];
    return all_reduce_async(pg, grads, numel, FLOAT32, REDUCE_MEAN);
}

static void hook_body(Rank *rank)
{
    Training t;
    training_init(&t, rank, 1e-3);
    reducer_register_comm_hook(&t.reducer, negate_hook, &t.pg);
    for (int pass = 0; pass < 2; pass++) {
        zero_grad(&t);
        num_hooked = 0;
        backward(&t, pass);
        reducer_finalize(&t.reducer);
        CHECK(num_hooked == t.reducer.num_buckets, "%d of %d buckets went to the hook", num_hooked,
              t.reducer.num_buckets);
        for (size_t k = 0; k < t.p.numel; k++)
            t.grads[k] = -t.grads[k];
        for (int i = 0; i < NUM_PARAMETERS; i++)
            expect_mean(&t, i, pass, pass);
    }
    training_free(&t);
}

static void test_hooks_send_the_buckets(void **state)
{
    (void)state;
    ranks_run_well(3, hook_body, NULL);
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
        ranks_run_well(world_size, identical_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_are_the_mean_whatever_the_buckets_and_the_order),
        cmocka_unit_test(test_buckets_leave_early_and_in_index_order),
        cmocka_unit_test(test_no_sync_adds_up_and_sends_once),
        cmocka_unit_test(test_hooks_send_the_buckets),
        cmocka_unit_test(test_replicas_get_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
