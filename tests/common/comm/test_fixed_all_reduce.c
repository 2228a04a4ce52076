/*
 * --reduce-order fixed between ranks: all_reduce equals a tree computed by hand, bit for bit, for
 * whole and split arrays; the other collectives are unchanged; and what such a group refuses.
 */
#include <stdlib.h>

#include "05_fault_tolerance/checks/reduce_order.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/rng.h"
#include "common/comm/backend.h"
#include "tests/common/comm/collective_cases.h"
#include "tests/helpers/ranks.h"
#include "tests/helpers/unit.h"

enum { MAX_COUNT = 100003 };

static void join(Rank *rank, ProcessGroup *pg)
{
    rank->args.reduce_order = ORDER_FIXED;
    reduce_order_check(&rank->args, rank->world_size);
    rank_join(rank, pg);
    reduce_order_set(&rank->args, pg);
}

/* Returns numbers of very different sizes, so that every order of additions rounds differently. */
static float *numbers(int rank)
{
    Rng rng;
    rng_seed(&rng, (uint64_t)rank);
    float *array = mem_calloc(MAX_COUNT, sizeof *array);
    for (size_t i = 0; i < MAX_COUNT; i++)
        array[i] = rng_uniform_between(&rng, -1, 1) * (float)(1 << rng_next(&rng) % 20);
    return array;
}

static float *mean_by_hand(int world_size)
{
    float *array[MAX_RANKS];
    for (int rank = 0; rank < world_size; rank++)
        array[rank] = numbers(rank);
    for (int half = world_size / 2; half > 0; half /= 2)
        for (int rank = 0; rank < half; rank++) {
            for (size_t i = 0; i < MAX_COUNT; i++)
                array[rank][i] += array[half + rank][i];
            free(array[half + rank]);
        }
    for (size_t i = 0; i < MAX_COUNT; i++)
        array[0][i] /= (float)world_size;
    return array[0];
}

static void tree_body(Rank *rank)
{
    static const size_t pieces[] = { 1, 2, 3, 7, 8, 1001, 8193, MAX_COUNT };
    float *expected = mean_by_hand(rank->world_size);
    ProcessGroup pg;
    join(rank, &pg);
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        float *data = numbers(rank->rank);
        const size_t end = pieces[p] < 1000 ? 300 * pieces[p] : MAX_COUNT;
        for (size_t i = 0; i < end; i += pieces[p])
            all_reduce(&pg, data + i, end - i < pieces[p] ? end - i : pieces[p], FLOAT32,
                       REDUCE_MEAN);
        for (size_t i = 0; i < end; i++)
            CHECK(memcmp(&data[i], &expected[i], sizeof *data) == 0,
                  "in pieces of %zu, element %zu: %a, not %a", pieces[p], i, (double)data[i],
                  (double)expected[i]);
        free(data);
    }
    process_group_destroy(&pg);
    free(expected);
}

static void test_tree_by_hand(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 8; world_size *= 2)
        ranks_run_well(world_size, tree_body, NULL);
}

static void cases_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg);
    collective_cases_run(&pg);
    process_group_destroy(&pg);
}

static void test_all_collectives(void **state)
{
    (void)state;
    ranks_run_well(4, cases_body, NULL);
}

static void disagreeing_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.reduce_order = rank->rank == 1 ? ORDER_FIXED : ORDER_ANY;
    rank_join(rank, &pg);
}

static void three_body(Rank *rank)
{
    ProcessGroup pg;
    join(rank, &pg);
}

static void expect_usage(const RankEnd *end, const char *text)
{
    if (end->status != 2 || strstr(end->errors, text) == NULL)
        fail_msg("ended with %d and \"%s\", not with \"%s\"", end->status, end->errors, text);
}

static void mpi_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.backend = BACKEND_MPI;
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1); // as mpirun would
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    join(rank, &pg);
}

static void test_refused(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(2, disagreeing_body, NULL, end);
    for (int rank = 0; rank < 2; rank++) {
        expect_error_at_once(end, rank, "the ranks disagree: rank ");
        expect_error(end, rank, "rank 1 has --reduce-order fixed");
    }
    ranks_run(3, three_body, NULL, end);
    expect_usage(&end[0], "--reduce-order fixed is for 1, 2, 4 or 8 ranks, not for 3");
    assert_int_equal(end[1].status, 2);
    if (backend_mpi.remedy != NULL)
        return;
    ranks_run(1, mpi_body, NULL, end);
    expect_usage(&end[0], "--reduce-order fixed is for --backend tcp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_by_hand),
        cmocka_unit_test(test_all_collectives),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
