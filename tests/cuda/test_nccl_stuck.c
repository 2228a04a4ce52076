/* Ranks of the nccl backend whose watchdog queries CUDA and gets no answer, or a late one. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/cuda.h"
#include "tests/cuda/gpu_ranks.h"
#include "tests/helpers/unit.h"

#define TIMEOUT 12 // seconds at first; a rank may be silent for a quarter of it
#define NUMEL 1000
#define SLOTS 256 // NCCL_MAX_CALLS

/* Makes rank 1's next cudaEventQuery take `seconds`, or forever, and joins the group. */
static void join_slowly(Rank *rank, ProcessGroup *pg, const char *seconds)
{
    if (rank->rank == 1)
        setenv("CUDA_STAND_IN_QUERY_SECONDS", seconds, 1);
    alarm(4 * (unsigned)rank->args.timeout); // because a hanging watchdog ends nothing
    gpu_rank_join(rank, pg, BACKEND_NCCL, rank->rank);
}

static float *sum(ProcessGroup *pg)
{
    static float *numbers;
    const float zeros[NUMEL] = { 0 };
    if (numbers == NULL)
        numbers = gpu_array_new(zeros, sizeof zeros);
    all_reduce(pg, numbers, NUMEL, FLOAT32, REDUCE_SUM);
    CUDA_CHECK(cudaStreamSynchronize(pg->place.stream));
    return numbers;
}

/* The GPU of rank 1 computes and never answers. */
static void stuck_body(Rank *rank)
{
    ProcessGroup pg;
    join_slowly(rank, &pg, "-1");
    for (;;) {
        sum(&pg);
        usleep(10000);
    }
}

static void test_a_gpu_that_does_not_answer(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    char text[128];
    const double timeout = ranks_run_into_timeout(3, TIMEOUT, stuck_body, NULL,
                                                  "fatal: the GPU of rank 1 does not answer", end);
    snprintf(text, sizeof text, "cudaEventQuery has not returned for %g s, during ", timeout);
    for (int rank = 0; rank < 3; rank++) {
        expect_error(end, rank, text);
        assert_true(end[rank].seconds < timeout + AT_ONCE);
    }
}

/* As in stuck_body, but rank 2 dies, and the others inform rank 1. */
static void told_body(Rank *rank)
{
    ProcessGroup pg;
    join_slowly(rank, &pg, "-1");
    sum(&pg);
    if (rank->rank == 2)
        raise(SIGKILL);
    sum(&pg);
}

static void test_a_verdict_is_read_meanwhile(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run_into_timeout(3, TIMEOUT, told_body, NULL, "rank 2 is gone: no sign of life for ",
                           end);
}

/* Rank 1 leaves the group while CUDA does not answer, and waits for the thread that queries it. */
static void leaving_body(Rank *rank)
{
    ProcessGroup pg;
    join_slowly(rank, &pg, "-1");
    sum(&pg);
    sleep(rank->rank == 1 ? 2 : 1000); // until it is queried
    process_group_destroy(&pg);
}

static void test_a_group_that_cannot_be_left(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run_into_timeout(2, TIMEOUT, leaving_body, NULL, "the GPU of rank 1 does not answer",
                           end);
}

/* CUDA loads a library for longer than a rank may be silent, which must not count as death. */
static void slow_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.timeout = 2 * TIMEOUT;
    join_slowly(rank, &pg, "14"); // the others check after 5 s, and give up 6 s later
    const double end = seconds_now() + 16;
    do {
        sum(&pg);
        usleep(10000);
    } while (all_reduce_scalar(&pg, seconds_now() < end, REDUCE_MAX) > 0);
    gpu_rank_leave(&pg);
}

static void test_a_slow_answer_is_no_death(void **state)
{
    (void)state;
    ranks_run_well(3, slow_body, NULL);
}

/* While the event of one call is queried, the next call in its slot is captured. */
static void reused_body(Rank *rank)
{
    ProcessGroup pg;
    join_slowly(rank, &pg, "5");
    bool replaying = false;
    pg.place.replaying = &replaying;
    float *numbers = sum(&pg);
    usleep(1500000); // until it is queried
    for (int i = 1; i < SLOTS; i++)
        all_reduce(&pg, numbers, NUMEL, FLOAT32, REDUCE_SUM);
    cudaGraph_t graph;
    CUDA_CHECK(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
    all_reduce(&pg, numbers, NUMEL, FLOAT32, REDUCE_SUM);
    usleep(5000000); // until it is answered
    CUDA_CHECK(cudaStreamEndCapture(compute, &graph));
    CUDA_CHECK(cudaGraphDestroy(graph));
    sum(&pg);
    gpu_rank_leave(&pg);
}

static void test_an_answer_about_a_reused_event(void **state)
{
    (void)state;
    ranks_run_well(2, reused_body, NULL);
}

int main(void)
{
    setenv("CUDA_STAND_IN_DEVICES", "8", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gpu_that_does_not_answer),
        cmocka_unit_test(test_a_verdict_is_read_meanwhile),
        cmocka_unit_test(test_a_group_that_cannot_be_left),
        cmocka_unit_test(test_a_slow_answer_is_no_death),
        cmocka_unit_test(test_an_answer_about_a_reused_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
