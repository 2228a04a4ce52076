/* The nccl backend passes every backend's cases, between GPUs; in graphs, and beside threads. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/cuda.h"
#include "common/base/signals.h"
#include "tests/common/comm/collective_cases.h"
#include "tests/cuda/gpu_ranks.h"
#include "tests/helpers/unit.h"

#define NUMEL 1000

static void cases_body(Rank *rank)
{
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_NCCL, rank->rank);
    collective_cases_run(&pg);
    gpu_rank_leave(&pg);
}

static void test_every_collective(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 3; world_size++)
        ranks_run_well(world_size, cases_body, NULL);
}

static void checked_body(Rank *rank)
{
    rank->args.check_collectives = true;
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_NCCL, rank->rank);
    collective_order_run(&pg);
    collective_rounding_run(&pg);
    process_group_destroy(&pg);
}

static void test_compared_calls(void **state)
{
    (void)state;
    ranks_run_well(2, checked_body, NULL);
}

/* Sends two buckets in a graph, as the reducer does, with the work before and after them. */
static void step(ProcessGroup *pg, float *numbers)
{
    CUDA_CHECK(cudaMemcpyAsync(numbers, numbers + 2 * NUMEL, NUMEL * sizeof(float),
                               cudaMemcpyDeviceToDevice, compute));
    const Work first = all_reduce_async(pg, numbers, NUMEL, FLOAT32, REDUCE_MEAN);
    CUDA_CHECK(cudaMemcpyAsync(numbers + NUMEL, numbers + 2 * NUMEL, NUMEL * sizeof(float),
                               cudaMemcpyDeviceToDevice, compute));
    const Work second = all_reduce_async(pg, numbers + NUMEL, NUMEL, FLOAT32, REDUCE_SUM);
    work_wait(first);
    work_wait(second);
    CUDA_CHECK(cudaMemcpyAsync(numbers + 2 * NUMEL, numbers + NUMEL, NUMEL * sizeof(float),
                               cudaMemcpyDeviceToDevice, compute));
}

static void expect(const float *numbers, float mean, float sum)
{
    float got[2 * NUMEL];
    gpu_array_read(got, numbers, sizeof got);
    for (int i = 0; i < NUMEL; i++)
        CHECK(got[i] == mean && got[NUMEL + i] == sum, "element %d is %g and %g, not %g and %g", i,
              got[i], got[NUMEL + i], mean, sum);
}

static cudaGraphExec_t recorded;

static void drop_graph(const bool *replaying)
{
    CHECK(!*replaying, "a graph is dropped at work");
    CUDA_CHECK(cudaGraphExecDestroy(recorded));
    recorded = NULL;
}

static void graph_body(Rank *rank)
{
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_NCCL, rank->rank);
    bool replaying = false;
    pg.place.replaying = &replaying;
    pg.place.drop_graph = drop_graph;
    float initial[3 * NUMEL];
    for (int i = 0; i < 3 * NUMEL; i++)
        initial[i] = 2 * (float)rank->rank + 1; // 1 and 3
    float *numbers = gpu_array_new(initial, sizeof initial);
    step(&pg, numbers); // because NCCL's first calls cannot be captured
    expect(numbers, 2, 4);
    step(&pg, numbers);
    expect(numbers, 4, 8);

    cudaGraph_t graph;
    CUDA_CHECK(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
    step(&pg, numbers);
    CUDA_CHECK(cudaStreamEndCapture(compute, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&recorded, graph, 0));
    CUDA_CHECK(cudaGraphDestroy(graph));
    CUDA_CHECK(cudaGraphLaunch(recorded, compute));
    expect(numbers, 8, 16);
    for (int i = 0; i < 3; i++) { // these calls queue nothing
        replaying = true;
        const float untouched[2] = { 0 };
        float *elsewhere = gpu_array_new(untouched, sizeof untouched);
        work_wait(all_reduce_async(&pg, elsewhere, 2, FLOAT32, REDUCE_SUM));
        work_wait(all_reduce_async(&pg, elsewhere, 2, FLOAT32, REDUCE_SUM));
        CUDA_CHECK(cudaGraphLaunch(recorded, compute));
        replaying = false;
    }
    expect(numbers, 64, 128);
    CHECK(pg.sequence == 12, "%d calls were counted, not 12", (int)pg.sequence);
    CHECK(all_reduce_scalar(&pg, 1, REDUCE_SUM) == 2, "calls after graphs add up otherwise");
    gpu_rank_leave(&pg);
    CHECK(recorded == NULL, "the group has left its graph");
}

static void test_graphs(void **state)
{
    (void)state;
    ranks_run_well(2, graph_body, NULL);
}

static void captured_scalar_body(Rank *rank)
{
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_NCCL, rank->rank);
    CUDA_CHECK(cudaStreamBeginCapture(pg.place.stream, cudaStreamCaptureModeThreadLocal));
    all_reduce_scalar(&pg, 1, REDUCE_SUM);
}

static void test_graphs_do_not_record_the_host(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(1, captured_scalar_body, NULL, end);
    expect_error(end, 0, "all_reduce #0 of 1 float64 (sum): a graph cannot record what needs the");
}

typedef struct {
    int device;
    Store *store;
    atomic_bool waited_for; // the first thread waits for its stream
    float *numbers; // on the device
} Neighbour;

static void note_wait(void *data)
{
    ((Neighbour *)data)->waited_for = true;
}

static void *write_numbers(void *data)
{
    Neighbour *neighbour = data;
    const float sevens[] = { 7, 7 };
    CUDA_CHECK(cudaSetDevice(neighbour->device));
    while (!neighbour->waited_for)
        usleep(100);
    CUDA_CHECK(cudaMemcpy(neighbour->numbers, sevens, sizeof sevens, cudaMemcpyHostToDevice));
    store_set(neighbour->store, "written", "", 0);
    return NULL;
}

/* On rank 0 a thread that leaves signals to others, like the watchdog, runs work on the device
 * while the main thread waits there for rank 1, which waits for that work. */
static void neighbour_body(Rank *rank)
{
    ProcessGroup pg;
    pthread_t thread;
    gpu_rank_join(rank, &pg, BACKEND_NCCL, rank->rank);
    float got[2] = { 1, 1 }, *numbers = gpu_array_new(got, sizeof got);
    Neighbour neighbour = { .device = rank->rank, .store = &rank->store };
    neighbour.numbers = gpu_array_new(got, sizeof got);
    barrier(&pg); // the first call, which connects the ranks, waits for both on the host
    CUDA_CHECK(cudaStreamSynchronize(compute)); // later work opens arrays again
    if (rank->rank == 0)
        CHECK(thread_start(&thread, write_numbers, &neighbour) == 0, "no thread");
    else
        store_wait(&rank->store, "written");
    CUDA_CHECK(cudaLaunchHostFunc(compute, note_wait, &neighbour));
    all_reduce(&pg, numbers, 2, FLOAT32, REDUCE_SUM);
    gpu_array_read(got, numbers, sizeof got);
    CHECK(got[0] == 2 && got[1] == 2, "the sums are %g and %g", got[0], got[1]);
    if (rank->rank == 0)
        pthread_join(thread, NULL);
    gpu_array_read(got, neighbour.numbers, sizeof got);
    CHECK(got[0] == (rank->rank == 0 ? 7 : 1), "beside them is %g", got[0]);
    gpu_rank_leave(&pg);
}

static void test_threads_without_signals(void **state)
{
    (void)state;
    ranks_run_well(2, neighbour_body, NULL);
}

int main(void)
{
    setenv("CUDA_STAND_IN_DEVICES", "8", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective),
        cmocka_unit_test(test_compared_calls),

        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_graphs_do_not_record_the_host),
        cmocka_unit_test(test_threads_without_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
