/* Batches: their rows, and each row's place in the batch of the whole group. */
#include <limits.h>

#include "tests/helpers/child.h"
#include "tests/helpers/exact.h"

#include "common/data/dataloader.h"

static void test_batches_of_an_epoch(void **state)
{
    (void)state;
    Dataset dataset = { .size = 11 };
    Sampler sampler;
    sequential_sampler_init(&sampler, dataset.size, 0, 1);
    DataLoader loader;
    dataloader_init(&loader, &dataset, &sampler, 4);
    assert_int_equal(dataloader_num_batches(&loader), 3);
    for (int epoch = 0; epoch < 2; epoch++) {
        for (size_t number = 0; number < 3; number++) {
            const Batch *batch = dataloader_next(&loader);
            assert_non_null(batch);
            assert_ptr_equal(batch->dataset, &dataset);
            assert_int_equal(batch->number, number);
            assert_int_equal(batch->size, number < 2 ? 4 : 3);
            for (size_t i = 0; i < (size_t)batch->size; i++)
                assert_int_equal(batch->index[i], 4 * number + i);
        }
        assert_null(dataloader_next(&loader)); // once, then the next epoch begins
    }
    dataloader_free(&loader);
    sampler_free(&sampler);
}

/* Three ranks with batches of 4 visit, batch by batch, what one rank with batches of 12 does, and
 * every row has the same place, and so the same dropout mask. */
static void test_places_do_not_depend_on_the_ranks(void **state)
{
    (void)state;
    enum { WORLD_SIZE = 3, SHARE = 4, ROWS = 40 }; // the last batch has 4 rows and 2 repeated ones
    const Dataset dataset = { .size = ROWS };
    Sampler whole_sampler;
    distributed_sampler_init(&whole_sampler, ROWS, 0, 1, true, false, 9);
    size_t order[ROWS];
    assert_int_equal(sampler_next(&whole_sampler, order, ROWS), ROWS);
    sampler_free(&whole_sampler);

    for (int rank = 0; rank < WORLD_SIZE; rank++) {
        Sampler sampler;
        distributed_sampler_init(&sampler, ROWS, rank, WORLD_SIZE, true, false, 9);
        DataLoader loader;
        dataloader_init(&loader, &dataset, &sampler, SHARE);
        assert_int_equal(dataloader_num_batches(&loader), 4);
        size_t batches = 0;
        for (const Batch *batch; (batch = dataloader_next(&loader)) != NULL; batches++)
            for (int i = 0; i < batch->size; i++) {
                const int place = batch->first_row + i * batch->row_stride;
                const size_t global = batch->number * WORLD_SIZE * SHARE + (size_t)place;
                assert_int_equal(batch->index[i], order[global % ROWS]);
            }
        assert_int_equal(batches, 4);
        dataloader_free(&loader);
        sampler_free(&sampler);
    }
}

/* Memory depends on the rows; this batch size alone would take 16 GB. */
static void test_huge_batch(void **state)
{
    (void)state;
    const Dataset dataset = { .size = 10 };
    Sampler sampler;
    DataLoader loader;
    sequential_sampler_init(&sampler, dataset.size, 1, 3);
    dataloader_init(&loader, &dataset, &sampler, INT_MAX);
    assert_true(is_exact(loader.index)); // larger arrays are not
    assert_int_equal(dataloader_num_batches(&loader), 1);
    const Batch *batch = dataloader_next(&loader);
    assert_int_equal(batch->size, 3);
    assert_int_equal(batch->index[2], 7);
    assert_null(dataloader_next(&loader));
    dataloader_free(&loader);
    sampler_free(&sampler);
}

static void load_batches(void *sampler)
{
    const Dataset dataset = { .size = 1000 };
    DataLoader loader;
    dataloader_init(&loader, &dataset, sampler, 500);
    dataloader_free(&loader);
}

static void test_leaves_nothing(void **state)
{
    (void)state;
    Sampler sampler;
    sequential_sampler_init(&sampler, 1000, 0, 1);
    assert_leaves_nothing(load_batches, &sampler);
    sampler_free(&sampler);
}

static void test_goes_on_after_a_seek(void **state)
{
    (void)state;
    const Dataset dataset = { .size = 100 };
    Sampler sampler;
    sequential_sampler_init(&sampler, dataset.size, 1, 2);
    DataLoader loader;
    dataloader_init(&loader, &dataset, &sampler, 8);
    sampler_seek(&sampler, 3 * 2 * 8);
    const Batch *batch = dataloader_next(&loader);
    assert_int_equal(batch->number, 3);
    assert_int_equal(batch->index[0], 49);
    assert_int_equal(dataloader_num_batches(&loader), 7); // a whole epoch of 50 rows
    dataloader_free(&loader);
    sampler_free(&sampler);
}

static void test_no_rows(void **state)
{
    (void)state;
    const Dataset dataset = { .size = 0 };
    Sampler sampler;
    distributed_sampler_init(&sampler, 0, 0, 2, true, false, 0);
    DataLoader loader;
    dataloader_init(&loader, &dataset, &sampler, 8);
    assert_int_equal(dataloader_num_batches(&loader), 0);
    assert_null(dataloader_next(&loader));
    dataloader_free(&loader);
    sampler_free(&sampler);
}

/* Cut into 8 shards, all ranks' batches together do not depend on the number of ranks: an epoch
 * continues from its start until they are full. */
static void test_batches_in_shards(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 3, 8, 21, 100 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int world_size = 1; world_size <= 8; world_size *= 2)
            for (int rank = 0; rank < world_size; rank++) {
                const Dataset dataset = { .size = sizes[s], .shards = 8 };
                Sampler alone, sampler;
                distributed_sampler_init(&alone, dataset.size, 0, 1, true, false, 5);
                distributed_sampler_init(&sampler, dataset.size, rank, world_size, true, false, 5);
                DataLoader loader;
                dataloader_init(&loader, &dataset, &sampler, 8 / world_size);
                assert_int_equal(dataloader_num_batches(&loader), (dataset.size + 7) / 8);
                sampler_set_epoch(&alone, 2);
                sampler_set_epoch(&sampler, 2);
                size_t place = (size_t)rank; // position in the group's epoch
                for (const Batch *batch; (batch = dataloader_next(&loader)) != NULL;) {
                    assert_int_equal(batch->size, 8 / world_size);
                    for (int i = 0; i < batch->size; i++, place += (size_t)world_size)
                        assert_int_equal(batch->index[i], alone.order[place % dataset.size]);
                }
                assert_int_equal(place - (size_t)rank, (dataset.size + 7) / 8 * 8);
                dataloader_free(&loader);
                sampler_free(&sampler);
                sampler_free(&alone);
            }
}

static void init_with_batch_size(const void *batch_size)
{
    const Dataset dataset = { .size = 1 };
    Sampler sampler;
    sequential_sampler_init(&sampler, 1, 0, 1);
    DataLoader loader;
    dataloader_init(&loader, &dataset, &sampler, *(const int *)batch_size);
}

static void test_refuses_empty_batches(void **state)
{
    (void)state;
    assert_dies_saying(init_with_batch_size, &(int){ 0 }, 1, "batch of 0 rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaves_nothing),
        cmocka_unit_test(test_batches_of_an_epoch),
        cmocka_unit_test(test_places_do_not_depend_on_the_ranks),
        cmocka_unit_test(test_huge_batch),
        cmocka_unit_test(test_goes_on_after_a_seek),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_batches_in_shards),
        cmocka_unit_test(test_refuses_empty_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
