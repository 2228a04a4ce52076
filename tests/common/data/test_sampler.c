/*
 * The samplers against the index lists of torch's DistributedSampler (tests/golden/sampler.jsonl),
 * and by their properties where torch has no equivalent: exact evaluation, seeking, few rows.
 */
#include "tests/helpers/child.h"
#include "tests/helpers/exact.h"

#include <jansson.h>

#include "common/base/comfort.h"
#include "common/data/sampler.h"

/* Returns the rest of the epoch, in odd portions, on whose sizes it must not depend. */
static size_t *rest(Sampler *sampler, size_t *size)
{
    size_t *index = calloc(sampler->size + 7, sizeof *index);
    size_t n;
    for (*size = 0; (n = sampler_next(sampler, index + *size, 7)) > 0;)
        *size += n;
    return index;
}

static void assert_rest(Sampler *sampler, const size_t *expected, size_t size)
{
    size_t n;
    size_t *index = rest(sampler, &n);
    assert_int_equal(n, size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(index[i], expected[i]);
    free(index);
}

static int64_t number(const json_t *line, const char *name)
{
    const json_t *value = json_object_get(line, name);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void check_line(const json_t *line)
{
    Sampler sampler;
    distributed_sampler_init(&sampler, (size_t)number(line, "n"), (int)number(line, "rank"),
                             (int)number(line, "world"), number(line, "shuffle") != 0,
                             number(line, "drop_last") != 0, (uint64_t)number(line, "seed"));
    sampler_set_epoch(&sampler, (int)number(line, "epoch"));
    assert_int_equal(sampler.size, number(line, "len"));
    assert_int_equal(sampler.total, number(line, "len") * number(line, "world"));

    size_t size, i;
    size_t *index = rest(&sampler, &size);
    assert_int_equal(size, number(line, "len"));
    json_t *value;
    json_array_foreach(json_object_get(line, "first"), i, value)
    {
        assert_int_equal(index[i], json_integer_value(value));
    }
    json_array_foreach(json_object_get(line, "all"), i, value)
    {
        assert_int_equal(index[i], json_integer_value(value));
    }
    free(index);
    sampler_free(&sampler);
}

static void test_as_in_pytorch(void **state)
{
    (void)state;
    FILE *file = fopen("tests/golden/sampler.jsonl", "r");
    assert_non_null(file);
    char *text = NULL;
    size_t capacity = 0;
    int checked = 0;
    for (; getline(&text, &capacity, file) > 0; checked++) {
        json_t *line = json_loads(text, 0, NULL);
        assert_non_null(line);
        check_line(line);
        json_decref(line);
    }
    assert_int_equal(checked, 201);
    free(text);
    fclose(file);
}

static void test_epochs_differ_and_come_again(void **state)
{
    (void)state;
    Sampler sampler, other;
    distributed_sampler_init(&sampler, 1000, 0, 2, true, false, 5);
    distributed_sampler_init(&other, 1000, 0, 2, true, false, 6);
    size_t n;
    size_t *epoch_0 = rest(&sampler, &n);
    assert_rest(&sampler, epoch_0, n); // the same again without sampler_set_epoch
    sampler_set_epoch(&sampler, 1);
    sampler_set_epoch(&other, 0); // seed and epoch are added
    size_t *epoch_1 = rest(&sampler, &n);
    assert_memory_not_equal(epoch_0, epoch_1, n * sizeof *epoch_0);
    assert_rest(&other, epoch_1, n);
    sampler_set_epoch(&sampler, 0);
    size_t some[3];
    assert_int_equal(sampler_next(&sampler, some, 3), 3);
    sampler_set_epoch(&sampler,
                      1); // another epoch starts at 0, wherever this one was
    assert_rest(&sampler, epoch_1, n);
    sampler_set_epoch(&sampler, 0);
    assert_rest(&sampler, epoch_0, n);
    free(epoch_0);
    free(epoch_1);
    sampler_free(&other);
    sampler_free(&sampler);
}

/* (epoch, position) determines what comes next, so it is all that a resumed run needs. */
static void test_goes_on_where_it_stood(void **state)
{
    (void)state;
    Sampler sampler, resumed;
    distributed_sampler_init(&sampler, 100, 1, 2, true, false, 5);
    distributed_sampler_init(&resumed, 100, 1, 2, true, false, 5);
    size_t n, index[50];
    free(rest(&sampler, &n));
    assert_int_equal(sampler.epoch, 1);
    assert_int_equal(sampler.position, 0);

    sampler_set_epoch(&sampler, 1);
    assert_int_equal(sampler_next(&sampler, index, 30), 30);
    resumed.epoch = sampler.epoch;
    sampler_seek(&resumed, sampler.position * 2);
    sampler_set_epoch(&resumed, 1);
    assert_int_equal(sampler_next(&sampler, index, 50), 20);
    assert_rest(&resumed, index, 20);
    sampler_free(&resumed);
    sampler_free(&sampler);
}

static void test_few_rows(void **state)
{
    (void)state;
    Sampler sampler;
    for (int rank = 0; rank < 8; rank++) {
        // 3 rows for 8 ranks: 0 1 2 0 1 2 0 1, or no rows for any rank.
        distributed_sampler_init(&sampler, 3, rank, 8, false, false, 0);
        assert_rest(&sampler, (const size_t[]){ (size_t)rank % 3 }, 1);
        sampler_free(&sampler);
        distributed_sampler_init(&sampler, 3, rank, 8, true, true, 0);
        assert_rest(&sampler, NULL, 0);
        sampler_free(&sampler);
        distributed_sampler_init(&sampler, 0, rank, 8, true, false, 0);
        assert_rest(&sampler, NULL, 0);
        sampler_set_epoch(&sampler, 1);
        assert_rest(&sampler, NULL, 0);
        sampler_free(&sampler);
        sequential_sampler_init(&sampler, 3, rank, 8);
        assert_rest(&sampler, (const size_t[]){ (size_t)rank }, rank < 3);
        sampler_free(&sampler);
    }
}

static void test_sequential_visits_each_row_once(void **state)
{
    (void)state;
    for (size_t rows = 0; rows < 12; rows++)
        for (int world_size = 1; world_size <= 5; world_size++) {
            int visits[12] = { 0 };
            for (int rank = 0; rank < world_size; rank++) {
                Sampler sampler;
                sequential_sampler_init(&sampler, rows, rank, world_size);
                size_t n;
                size_t *index = rest(&sampler, &n);
                for (size_t i = 0; i < n; i++) {
                    assert_int_equal(index[i], (size_t)rank + i * (size_t)world_size);
                    visits[index[i]]++;
                }
                free(index);
                sampler_free(&sampler);
            }
            for (size_t i = 0; i < 12; i++)
                assert_int_equal(visits[i], i < rows);
        }
}

/* Three, two or one ranks continue where two ranks stopped. No row is visited twice. */
static void test_seek_shares_out_what_is_left(void **state)
{
    (void)state;
    enum { ROWS = 60, DONE = 24 };
    for (int world_size = 1; world_size <= 3; world_size++) {
        int visits[ROWS] = { 0 };
        for (int rank = 0; rank < 2; rank++) {
            Sampler sampler;
            distributed_sampler_init(&sampler, ROWS, rank, 2, true, false, 3);
            size_t index[DONE / 2];
            assert_int_equal(sampler_next(&sampler, index, DONE / 2), DONE / 2);
            for (int i = 0; i < DONE / 2; i++)
                visits[index[i]]++;
            sampler_free(&sampler);
        }
        for (int rank = 0; rank < world_size; rank++) {
            Sampler sampler;
            distributed_sampler_init(&sampler, ROWS, rank, world_size, true, false, 3);
            sampler_seek(&sampler, DONE);
            size_t n;
            size_t *index = rest(&sampler, &n);
            assert_int_equal(n, (ROWS - DONE) / world_size);
            for (size_t i = 0; i < n; i++)
                visits[index[i]]++;
            free(index);
            sampler_free(&sampler);
        }
        for (int i = 0; i < ROWS; i++)
            assert_int_equal(visits[i], 1);
    }
}

static void test_seek_to_the_ends(void **state)
{
    (void)state;
    Sampler sampler;
    distributed_sampler_init(&sampler, 10, 1, 4, false, false, 0); // places 1, 5 and 9
    sampler_seek(&sampler, 0);
    assert_rest(&sampler, (const size_t[]){ 1, 5, 9 }, 3);
    sampler_seek(&sampler, 5);
    assert_rest(&sampler, (const size_t[]){ 5, 9 }, 2);
    sampler_seek(&sampler, 6); // otherwise rank 0 would be one further, and wait forever
    assert_rest(&sampler, (const size_t[]){ 5, 9 }, 2);
    sampler_seek(&sampler, 12);
    assert_rest(&sampler, NULL, 0);
    assert_rest(&sampler, (const size_t[]){ 1, 5, 9 }, 3); // is at the beginning again
    sampler_seek(&sampler, SIZE_MAX);
    assert_rest(&sampler, NULL, 0);
    sampler_free(&sampler);
}

/* Wherever a group of another size stopped, the ranks that continue have equally many rows, no row
 * is left out, and nothing is left where that group had padded the end. */
static void test_seek_keeps_ranks_together(void **state)
{
    (void)state;
    enum { ROWS = 13 };
    for (int world_size = 1; world_size <= 5; world_size++)
        for (size_t position = 0; position <= 15; position++) {
            bool visited[ROWS] = { false };
            size_t left = 0;
            for (int rank = 0; rank < world_size; rank++) {
                Sampler sampler;
                distributed_sampler_init(&sampler, ROWS, rank, world_size, false, false, 0);
                sampler_seek(&sampler, position);
                size_t n, *index = rest(&sampler, &n);
                assert_true(rank == 0 || n == left);
                left = n;
                for (size_t i = 0; i < n; i++)
                    visited[index[i]] = true;
                free(index);
                sampler_free(&sampler);
            }
            assert_true(position < ROWS || left == 0);
            for (size_t i = position; i < ROWS; i++)
                assert_true(visited[i]);
        }
}

/* How the rows of rank 1 of 4 are dealt out. */
typedef struct {
    size_t rows;
    bool shuffle, drop_last;
    const char *line;
} Dealing;

static void deal_aloud(const void *context)
{
    const Dealing *dealing = context;
    Sampler sampler;
    setenv("DDP_LOG", "sampler", 1);
    distributed_sampler_init(&sampler, dealing->rows, 1, 4, dealing->shuffle, dealing->drop_last,
                             0);
    sampler_free(&sampler);
}

static void test_dealing_can_be_logged(void **state)
{
    (void)state;
    static const Dealing dealings[] = {
        { 10, false, false,
          "epoch 0, in order: 3 of 10 rows are ours, the first is row 1; 2 come twice to" },
        { 10, false, true,
          "epoch 0, in order: 2 of 10 rows are ours, the first is row 1; 0 come twice to" },
        { 12, true, false, "epoch 0, shuffled: 3 of 12 rows are ours, the first is row " },
        { 4, false, false, "epoch 0, in order: 1 of 4 rows are ours, the first is row 1; 0 come" },
        { 12, true, false, "; 0 come twice to make the shares equal\n" },
    };
    for (size_t i = 0; i < LENGTH(dealings); i++) {
        assert_int_equal(child_run(deal_aloud, &dealings[i]), 0);
        if (has_extras)
            assert_has(err, dealings[i].line);
    }
    assert_int_equal(child_run(deal_aloud, &(Dealing){ 3, false, true, "" }), 0);
    assert_string_equal(err, ""); // no rows, no line
}

static void init_with_ranks(const void *ranks)
{
    Sampler sampler;
    const int rank = ((const int *)ranks)[0], world_size = ((const int *)ranks)[1];
    distributed_sampler_init(&sampler, 10, rank, world_size, true, false, 0);
}

static void test_refuses_a_rank_outside(void **state)
{
    (void)state;
    assert_dies_saying(init_with_ranks, ((int[]){ 4, 4 }), 1, "rank 4", "4 ranks");
    assert_dies_saying(init_with_ranks, ((int[]){ -1, 4 }), 1, "rank -1", "4 ranks");
    assert_dies_saying(init_with_ranks, ((int[]){ 0, 0 }), 1, "rank 0", "0 ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dealing_can_be_logged), // first, since DDP_LOG is read once
        cmocka_unit_test(test_as_in_pytorch),
        cmocka_unit_test(test_epochs_differ_and_come_again),
        cmocka_unit_test(test_goes_on_where_it_stood),
        cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_sequential_visits_each_row_once),
        cmocka_unit_test(test_seek_shares_out_what_is_left),
        cmocka_unit_test(test_seek_to_the_ends),
        cmocka_unit_test(test_seek_keeps_ranks_together),
        cmocka_unit_test(test_refuses_a_rank_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
