/* GPU memory staged through the host: tcp on a GPU, which several ranks may share. */
#include <stdlib.h>

#include "common/base/cuda.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "tests/common/comm/collective_cases.h"
#include "tests/cuda/gpu_ranks.h"
#include "tests/extras/hierarchical/split_cases.h"
#include "tests/helpers/unit.h"

#define NUM_BUCKETS 100 // more than staging has slots
#define NUMEL 5000

static void cases_body(Rank *rank)
{
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_TCP, rank->rank % 2); // some share one
    collective_cases_run(&pg);
    gpu_rank_leave(&pg);
}

static void test_every_collective(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 3; world_size++)
        ranks_run_well(world_size, cases_body, NULL);
}

static void split_body(Rank *rank)
{
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_TCP, 0);
    split_cases_run(&pg);
    process_group_destroy(&pg);
}

static void test_parts_of_any_shape(void **state)
{
    (void)state;
    ranks_run_well(3, split_body, NULL);
    ranks_run_well(4, split_body, NULL);
}

/* Buckets are in flight while the GPU fills the next; each begins with a different number. */
static void overlap_body(Rank *rank)
{
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_TCP, 0);
    static float numbers[NUM_BUCKETS * NUMEL], got[NUM_BUCKETS * NUMEL];
    for (int i = 0; i < NUM_BUCKETS * NUMEL; i++)
        numbers[i] = (float)((i + rank->rank) % 1000);
    float *buckets = gpu_array_new(got, sizeof got);
    Work work[NUM_BUCKETS];
    const long spins = stand_in_counts().spins;
    for (int i = 0; i < NUM_BUCKETS; i++) {
        float *bucket = buckets + (size_t)i * NUMEL;
        CUDA_CHECK(cudaMemcpyAsync(bucket, numbers + (size_t)i * NUMEL, NUMEL * sizeof(float),
                                   cudaMemcpyHostToDevice, pg.place.stream));
        work[i] = all_reduce_async(&pg, bucket, NUMEL, FLOAT32, REDUCE_SUM);
    }
    for (int i = 0; i < NUM_BUCKETS; i++)
        work_wait(work[i]);
    CHECK(stand_in_counts().spins == spins, "a wait takes the core of the thread that sends");
    gpu_array_read(got, buckets, sizeof got);
    for (int i = 0; i < NUM_BUCKETS * NUMEL; i++)
        CHECK(got[i] == (float)(i % 1000 + (i + 1) % 1000), "element %d is %g", i, got[i]);
    process_group_destroy(&pg);
}

static void test_buckets_on_their_way(void **state)
{
    (void)state;
    ranks_run_well(2, overlap_body, NULL);
}

/* The odd length leaves a remainder, which is reduced and sent before the shares. */
static void hierarchical_body(Rank *rank)
{
    enum { LENGTH = 4 * NUMEL + 1 };
    rank->args.all_reduce = ALL_REDUCE_HIERARCHICAL;
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_TCP, 0);
    process_group_set_nodes(&pg, &rank->args, rank->rank / 2);
    static float numbers[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        numbers[i] = (float)(i + rank->rank);
    float *array = gpu_array_new(numbers, sizeof numbers);
    work_wait(pg.nodes->comm_hook(pg.nodes, array, LENGTH));
    gpu_array_read(numbers, array, sizeof numbers);
    for (int i = 0; i < LENGTH; i++)
        CHECK(numbers[i] == (float)i + 1.5f, "element %d is %g", i, numbers[i]);
    process_group_destroy(&pg);
}

static void test_stages_between_nodes(void **state)
{
    (void)state;
    ranks_run_well(4, hierarchical_body, NULL);
}

static void captured_body(Rank *rank)
{
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_TCP, 0);
    float number = 0, *array = gpu_array_new(&number, sizeof number);
    CUDA_CHECK(cudaStreamBeginCapture(pg.place.stream, cudaStreamCaptureModeThreadLocal));
    all_reduce_async(&pg, array, 1, FLOAT32, REDUCE_SUM);
}

static void test_graphs_are_refused(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(1, captured_body, NULL, end);
    assert_int_equal(end[0].status, 2);
    assert_non_null(strstr(end[0].errors, "--cuda-graph on needs --backend nccl: with tcp data "));
}

int main(void)
{
    setenv("CUDA_STAND_IN_DEVICES", "2", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective),     cmocka_unit_test(test_parts_of_any_shape),
        cmocka_unit_test(test_buckets_on_their_way), cmocka_unit_test(test_stages_between_nodes),
        cmocka_unit_test(test_graphs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
