/* The number of rows in a data set: all, the first few, or enough to fill its shards. */
#include "tests/common/data/dataset_args.h"
#include "tests/helpers/child.h"
#include "tests/helpers/exact.h"

#include <limits.h>

static void test_num_samples_shortens_the_training_half(void **state)
{
    (void)state;
    Args args = args_of(DATASET_RANDOM);
    args.num_samples = 100;
    Rng rng, all_drawn;
    rng_seed(&rng, 7);
    rng_seed(&all_drawn, 7);
    Dataset dataset;
    dataset_init(&dataset, &args, TRAIN, &rng);
    assert_int_equal(dataset.size, 100);
    for (int i = 0; i < 2048 * 21; i++)
        rng_next(&all_drawn);
    assert_int_equal(rng_next(&rng), rng_next(&all_drawn)); // the model's weights stay the same
    dataset_free(&dataset);

    args.dataset = DATASET_DIGITS;
    for (args.num_samples = 1; args.num_samples <= 100; args.num_samples += 99) {
        dataset_init(&dataset, &args, TRAIN, &rng);
        assert_int_equal(dataset.size, args.num_samples);
        dataset_free(&dataset);
    }
    dataset_init(&dataset, &args, TEST, &rng);
    assert_int_equal(dataset.size, 360);
    dataset_free(&dataset);
}

static void test_max_rows(void **state)
{
    (void)state;
    Args args = args_of(DATASET_RANDOM);
    args.dataset_size = 77;
    assert_int_equal(dataset_max_rows(&args), 77);
    args.dataset = DATASET_DIGITS;
    assert_in_range(dataset_max_rows(&args), 1437, 1797);
    args.dataset = DATASET_MNIST;
    assert_int_equal(dataset_max_rows(&args), INT_MAX);

    // In shards the last batch is filled up, to a multiple of 8 rows.
    args = args_of(DATASET_RANDOM);
    args.reduce_order = ORDER_FIXED;
    args.dataset_size = 77;
    assert_in_range(dataset_max_rows(&args), 80, 77 + 8);
    args.dataset_size = INT_MAX - 1;
    assert_int_equal(dataset_max_rows(&args), INT_MAX);
}

/* Only training is cut into shards: in an evaluation no row may come twice. */
static void test_shards_are_for_training(void **state)
{
    (void)state;
    Args args = args_of(DATASET_DIGITS);
    args.reduce_order = ORDER_FIXED;
    Dataset train, test;
    dataset_init(&train, &args, TRAIN, NULL);
    dataset_init(&test, &args, TEST, NULL);
    assert_int_equal(train.shards, 8);
    assert_int_equal(test.shards, 0);
    dataset_free(&test);
    dataset_free(&train);
}

static void test_too_many_samples(void **state)
{
    (void)state;
    Args args = args_of(DATASET_DIGITS);
    args.num_samples = 1437;
    load_train(&args);
    args.num_samples = 1438;
    assert_dies_saying(load_train, &args, 2, "--num-samples 1438", "digits", "1437");
    args.dataset = DATASET_RANDOM;
    args.num_samples = 2049;
    assert_dies_saying(load_train, &args, 2, "--num-samples 2049", "random", "2048");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_num_samples_shortens_the_training_half),
        cmocka_unit_test(test_max_rows),
        cmocka_unit_test(test_shards_are_for_training),
        cmocka_unit_test(test_too_many_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
