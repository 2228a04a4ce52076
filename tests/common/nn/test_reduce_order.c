/*
 * --reduce-order fixed inside a rank: the gradients of 1, 2, 4 and 8 ranks, added as the ranks
 * would, against a tree computed by hand, bit for bit. Its leaves are gradients of single samples,
 * from batches of one row without shards; and, for the linear model with more than one row in a
 * shard, gradients computed here.
 */
#include <stdlib.h>

#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/nn/model.h"
#include "tests/common/nn/on_device.h"
#include "tests/helpers/unit.h"

enum { SHARDS = 8, FEATURES = 20, MAX_ROWS = 1200, MAX_IMAGES = 104 };

/* A model in the middle of a training, and rows to train it on. */
typedef struct {
    Args args;
    Device device;
    Dataset dataset;
    Model model;
    int first_row;
} Subject;

static void subject_init(Subject *s, const char *model, int threads)
{
    Rng rng;
    rng_seed(&rng, 7);
    *s = (Subject){ 0 };
    args_defaults(&s->args, model);
    s->args.device = test_device_kind();
    s->args.threads = threads;
    device_init(&s->device, &s->args, 0);
    dataset_init(&s->dataset, &s->args, TRAIN, &rng);
    const int max_batch = s->dataset.num_classes > 0 ? MAX_IMAGES : MAX_ROWS;
    model_init(&s->model, &s->args, max_batch, &rng, &s->device);
    s->model.step = 3;
}

static void subject_free(Subject *s)
{
    model_free(&s->model);
    dataset_free(&s->dataset);
    device_free(&s->device);
}

/* Returns the gradient of rank's share of n rows, from first_row on, one float for each parameter;
 * free it. */
static float *gradient(Subject *s, int n, int rank, int world_size, int shards)
{
    static size_t index[MAX_ROWS];
    Batch batch = { .dataset = &s->dataset,
                    .index = index,
                    .size = n / world_size,
                    .first_row = rank,
                    .row_stride = world_size };
    s->dataset.shards = shards;
    for (int i = 0; i < batch.size; i++)
        index[i] = (size_t)(s->first_row + rank + i * world_size);
    model_zero_grad(&s->model);
    model_forward(&s->model, &batch);
    model_backward(&s->model);
    const size_t bytes = s->model.numel * sizeof(float);
    return memcpy(mem_calloc(1, bytes), s->model.grads, bytes);
}

/* Adds up the arrays of a tree, frees them, and divides by their number. */
static float *tree_mean(float *array[], int n, size_t numel)
{
    for (int half = n / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) {
            for (size_t j = 0; j < numel; j++)
                array[i][j] += array[half + i][j];
            free(array[half + i]);
        }
    for (size_t j = 0; j < numel; j++)
        array[0][j] /= (float)n;
    return array[0];
}

/* Returns all ranks' gradient, as they would add it. */
static float *gradient_of_ranks(Subject *s, int n, int world_size)
{
    float *array[SHARDS];
    for (int rank = 0; rank < world_size; rank++)
        array[rank] = gradient(s, n, rank, world_size, SHARDS);
    return tree_mean(array, world_size, s->model.numel);
}

static void assert_same(Subject *s, const float *expected, int n, int world_size)
{
    float *actual = gradient_of_ranks(s, n, world_size);
    for (size_t i = 0; i < s->model.numel; i++)
        if (memcmp(&actual[i], &expected[i], sizeof *actual) != 0)
            fail_msg("%s, %d rows, %d ranks, %d threads: gradient %zu is %a, not %a", s->model.name,
                     n, world_size, s->args.threads, i, (double)actual[i], (double)expected[i]);
    free(actual);
}

/* Checks shards of one row, where a shard's sum is the gradient of a sample. */
static void check_samples(const char *model, int threads)
{
    Subject s;
    subject_init(&s, model, threads);
    float *sample[SHARDS];
    for (int i = 0; i < SHARDS; i++)
        sample[i] = gradient(&s, SHARDS, i, SHARDS, 0);
    float *expected = tree_mean(sample, SHARDS, s.model.numel);
    for (int world_size = 1; world_size <= SHARDS; world_size *= 2)
        assert_same(&s, expected, SHARDS, world_size);
    free(expected);
    subject_free(&s);
}

static void test_samples_by_hand(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        check_samples("linear", threads);
        check_samples("cnn", threads);
    }
}

/* The fast CPU has layers of its own. */
static void test_plain_samples_by_hand(void **state)
{
    (void)state;
    if (getenv("TEST_DEVICE") != NULL)
        return;
    setenv("TEST_DEVICE", "plain", 1);
    check_samples("linear", 2);
    check_samples("cnn", 2);
    unsetenv("TEST_DEVICE");
}

/* Adds shards of several rows, each in order. Whether products are rounded before they are added is
 * the processor's and the compiler's choice. */
static float *linear_by_hand(Subject *s, int n, bool rounded)
{
    float *shard[SHARDS];
    for (int i = 0; i < SHARDS; i++)
        shard[i] = mem_calloc(FEATURES + 1, sizeof **shard);
    for (int row = 0; row < n; row++) {
        const float *x = s->dataset.floats + (s->first_row + row) * FEATURES;
        float *alone = gradient(s, n, row, n, 0); // the bias's is 2 (y - target)
        const float dy = alone[FEATURES] / (float)n * SHARDS; // a shard's mean
        float *sums = shard[row % SHARDS];
        for (int i = 0; i < FEATURES; i++) {
            const float product = dy * x[i];
            sums[i] = rounded ? sums[i] + product : fmaf(dy, x[i], sums[i]);
        }
        sums[FEATURES] += dy;
        free(alone);
    }
    return tree_mean(shard, SHARDS, FEATURES + 1);
}

static void check_linear(Subject *s, int n, int first_row)
{
    s->first_row = first_row;
    float *rounded = linear_by_hand(s, n, true), *exact = linear_by_hand(s, n, false);
    float *actual = gradient_of_ranks(s, n, 1);
    for (int i = 0; i <= FEATURES; i++)
        if (actual[i] != rounded[i] && actual[i] != exact[i])
            fail_msg("%d rows from %d: gradient %d is %a, not %a or %a", n, first_row, i,
                     (double)actual[i], (double)rounded[i], (double)exact[i]);
    for (int world_size = 2; world_size <= SHARDS; world_size *= 2)
        assert_same(s, actual, n, world_size);
    free(actual);
    free(exact);
    free(rounded);
}

static void test_linear_by_hand(void **state)
{
    (void)state;
    Subject s;
    subject_init(&s, "linear", 1);
    for (int n = 8; n <= 64; n += 8)
        for (int first_row = 0; first_row < 4 * n; first_row += n)
            check_linear(&s, n, first_row);
    check_linear(&s, MAX_ROWS, 0); // shards larger than one block of rows
    subject_free(&s);
}

/* The cnn's shards of several rows: it does not matter which rank or thread adds them. */
static void test_ranks_and_threads(void **state)
{
    (void)state;
    static const int sizes[] = { 24, 64, MAX_IMAGES };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        float *expected = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            Subject s;
            subject_init(&s, "cnn", threads);
            if (expected == NULL)
                expected = gradient_of_ranks(&s, sizes[i], SHARDS);
            for (int world_size = threads == 1 ? SHARDS / 2 : SHARDS; world_size > 0;
                 world_size /= threads == 1 ? 2 : SHARDS)
                assert_same(&s, expected, sizes[i], world_size);
            subject_free(&s);
        }
        free(expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_by_hand),
        cmocka_unit_test(test_linear_by_hand),
        cmocka_unit_test(test_ranks_and_threads),
        cmocka_unit_test(test_plain_samples_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
