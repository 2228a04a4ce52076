/* The Reducer's buckets: which gradients share one, by PyTorch's rule and for any sizes. */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/comfort.h"
#include "common/base/rng.h"
#include "common/comm/backend.h"
#include "tests/common/comm/ddp_training.h"
#include "tests/helpers/child.h"

/* conv1.weight, conv1.bias, conv2.weight, conv2.bias, fc1.weight, fc1.bias, fc2.weight, fc2.bias */
static const size_t cnn_sizes[] = { 288, 32, 18432, 64, 1179648, 128, 1280, 10 };

static size_t kept_bytes; // of memory, by the latest Reducer

static void expect_buckets(const size_t *sizes, int num_sizes, double cap_mb,
                           const char *num_parameters)
{
    const Parameters p = parameters_of(sizes, num_sizes);
    const Args args = { .bucket_cap_mb = cap_mb };
    Reducer reducer;
    const size_t before = mallinfo2().uordblks;
    reducer_init(&reducer, &args, &(ProcessGroup){ 0 }, NULL, p.parameter, p.num_parameters);

    char got[256] = "";
    size_t end = p.numel;
    int i = p.num_parameters;
    for (int b = 0; b < reducer.num_buckets; b++) {
        const Bucket *bucket = &reducer.bucket[b];
        sprintf(got + strlen(got), "%s%d", b > 0 ? " " : "", bucket->num_parameters);
        assert_int_equal(bucket->offset + bucket->numel, end); // together they cover all gradients
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
    kept_bytes = mallinfo2().uordblks - before;
}

/* PyTorch's rule: a tensor is added to the bucket, then the bucket closes if it has reached its
 * limit, 1 MiB for the first and the cap for the others, starting from the last parameter. */
static void test_buckets_are_pytorchs(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) // until the C library's caches are full
        expect_buckets(cnn_sizes, 8, 25, "4 4"); // the four of fc close at fc1.weight, 4.5 MiB
    assert_int_equal(kept_bytes, 0);
    expect_buckets(cnn_sizes, 8, 1000, "4 4");
    expect_buckets(cnn_sizes, 8, 0.05, "4 2 2"); // 52,429 bytes: conv2.weight has 73,728
    expect_buckets(cnn_sizes, 8, 0.005, "3 1 2 2"); // 5,243: fc2 has 5,160, with fc1.bias 5,672
    expect_buckets(cnn_sizes, 8, 0.001, "2 2 2 2"); // 1,049: conv1 has 1,280
    expect_buckets(cnn_sizes, 8, 1e-9, "1 1 1 1 1 1 1 1");

    size_t halves[11]; // numel of half a MiB each
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

static void plan_aloud(const void *context)
{
    (void)context;
    setenv("DDP_LOG", "bucket", 1);
    expect_buckets(cnn_sizes, 8, 25, "4 4");
}

static long start_nothing(void *state, const Collective *collective)
{
    (void)state, (void)collective;
    return 0;
}

static void wait_for_nothing(void *state, long ticket)
{
    (void)state, (void)ticket;
}

static const Backend silent = { .start = start_nothing, .wait = wait_for_nothing };
static ProcessGroup group = { .backend = &silent, .world_size = 1 };

static Work hook_of_nodes(void *nodes, float *grads, size_t numel)
{
    (void)grads;
    printf("%s %zu ", nodes == group.nodes ? "nodes" : "another", numel);
    return (Work){ &group, 0 };
}

/* One backward pass, through the hook of the group's nodes if context is one. */
static void train_aloud(const void *nodes)
{
    static float grads[1300000];
    const Parameters p = parameters_of(cnn_sizes, 8);
    Reducer reducer;
    setenv("DDP_LOG", "bucket", 1);
    group.nodes = (Nodes *)nodes;
    reducer_init(&reducer, &(Args){ .bucket_cap_mb = 25 }, &group, grads, p.parameter, 8);
    for (int i = 7; i >= 0; i--)
        reducer_mark_ready(&reducer, i);
    reducer_finalize(&reducer);
    reducer_free(&reducer);
}

static void test_a_backward_pass_can_be_logged(void **state)
{
    (void)state;
    static const Nodes nodes = { .comm_hook = hook_of_nodes };
    assert_int_equal(child_run(train_aloud, &nodes), 0);
    assert_string_equal(out, "nodes 1181066 nodes 18816 "); // fc, then conv
    assert_int_equal(child_run(train_aloud, NULL), 0);
    assert_string_equal(out, "");
    if (!has_extras)
        skip();
    assert_has(err, "bucket 0 of 2, p4 to p7, 4.505 MiB, is complete and leaves\n");
    assert_has(err, "bucket 1 of 2, p0 to p3, 0.072 MiB, is complete and leaves\n");
    assert_has(err, "the backward pass is done, waiting for 2 buckets\n");
    assert_has(err, "all buckets are back: gradients are averaged\n");
}

static void test_the_plan_can_be_logged(void **state)
{
    (void)state;
    assert_int_equal(child_run(plan_aloud, NULL), 0);
    if (!has_extras)
        skip();
    assert_has(err, "bucket 0 of 2, p4 to p7, 4.505 MiB, is planned\n");
    assert_has(err, "bucket 1 of 2, p0 to p3, 0.072 MiB, is planned\n");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_plan_can_be_logged),
        cmocka_unit_test(test_a_backward_pass_can_be_logged),
        cmocka_unit_test(test_buckets_are_pytorchs),
        cmocka_unit_test(test_buckets_cover_gradients_of_any_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
