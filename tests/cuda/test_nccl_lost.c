/* Ranks of the nccl backend that die, stop, stay away or differ: which rank is named by which. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/cuda.h"
#include "tests/cuda/gpu_ranks.h"
#include "tests/helpers/unit.h"

#define TIMEOUT 12 // seconds at first; a rank may be silent for a quarter of it
#define NUMEL 1000
#define OURS "all_reduce #1 of 1000 float32 (sum)"

typedef void Misdeed(ProcessGroup *pg, float *numbers);

static void sum(ProcessGroup *pg, float *numbers)
{
    all_reduce(pg, numbers, NUMEL, FLOAT32, REDUCE_SUM);
    CUDA_CHECK(cudaStreamSynchronize(pg->place.stream)); // as when reading the loss
}

static void die_there(ProcessGroup *pg, float *numbers)
{
    (void)pg, (void)numbers;
    raise(SIGKILL);
}

static void stop_there(ProcessGroup *pg, float *numbers)
{
    (void)pg, (void)numbers;
    raise(SIGSTOP);
}

static void stay_away(ProcessGroup *pg, float *numbers)
{
    (void)pg, (void)numbers;
    sleep(1000);
}

static void wait_for_a_message(ProcessGroup *pg, float *numbers)
{
    pg_recv(pg, numbers, 10, FLOAT32, 0);
    CUDA_CHECK(cudaStreamSynchronize(pg->place.stream));
}

/* Rank 1 of three does something else in the second call. */
static void body(Rank *rank)
{
    Misdeed *const *misdeed = rank->context;
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_NCCL, rank->rank);
    const float zeros[NUMEL] = { 0 };
    float *numbers = gpu_array_new(zeros, sizeof zeros);
    sum(&pg, numbers);
    if (rank->rank == 1)
        (*misdeed)(&pg, numbers);
    else
        sum(&pg, numbers);
    log_info("goes on");
    process_group_destroy(&pg);
}

/* Asserts the end of all ranks but 1, and of rank 1 if tells_rank_1. Returns the timeout. */
static double expect_end(Misdeed *misdeed, bool tells_rank_1, const char *text,
                         RankEnd end[MAX_RANKS])
{
    const double timeout = ranks_run_into_timeout(3, TIMEOUT, body, &misdeed, text, end);
    for (int rank = 0; rank < 3; rank++) {
        if (rank == 1 && !tells_rank_1)
            continue;
        expect_error(end, rank, text);
        assert_null(strstr(end[rank].errors, "goes on")); // with the result of a broken sum
        assert_true(end[rank].seconds < timeout + AT_ONCE);
    }
    return timeout;
}

static void test_dead_and_stopped_ranks(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    expect_end(die_there, false, "rank 1 is gone: no sign of life for ", end);
    expect_end(stop_there, false, "during " OURS, end);
}

static void test_rank_that_stays_away(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    char text[128];
    const double timeout = expect_end(stay_away, true, " missing in " OURS " after ", end);
    snprintf(text, sizeof text, " after %g s: it does not make this call", timeout);
    for (int rank = 0; rank < 3; rank++)
        expect_error(end, rank, text);
    // The rank that times out first names the other.
    expect_end(wait_for_a_message, true, "recv #1 of 10 float32 from rank 0", end);
}

/* The store is in rank 0's process, as without a launcher that serves one. */
static void own_store_body(Rank *rank)
{
    int port = 0;
    if (rank->rank > 0)
        store_get(&rank->store, "port", &port, sizeof port);
    Store *store = malloc(sizeof *store);
    store_init(store, "127.0.0.1", port, rank->rank == 0, rank->args.timeout);
    if (rank->rank == 0)
        store_set(&rank->store, "port", &store->port, sizeof store->port);
    store_free(&rank->store);
    rank->store = *store;
    Misdeed *const *misdeed = rank->context;
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_NCCL, rank->rank);
    if (rank->rank == 0)
        (*misdeed)(&pg, NULL);
    barrier(&pg);
}

static void test_the_rank_that_serves_the_store(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    Misdeed *misdeed = die_there;
    ranks_run(2, own_store_body, &misdeed, end);
    // "rank 0 is gone: the store that it serves has closed its connection"; or "has the process
    // that serves it ended?" if a request to the store was pending.
    expect_error_at_once(end, 1, "serves");
    assert_null(strstr(end[1].errors, " any more")); // which is the text for a silent rank
    misdeed = stop_there;
    ranks_run_into_timeout(2, TIMEOUT, own_store_body, &misdeed, " answer", end);
    // Or "no answer within ...", if a request was pending here.
    if (strstr(end[1].errors, "no answer within") == NULL)
        expect_error(end, 1, "rank 0 is gone: the store that it serves does not answer any more");
    misdeed = stay_away; // it is informed, and does not end before the other knows
    char text[128];
    const double timeout =
        ranks_run_into_timeout(2, TIMEOUT, own_store_body, &misdeed, " missing in ", end);
    snprintf(text, sizeof text,
             "fatal: rank 0 is missing in barrier #0 after %g s: it does not make", timeout);
    expect_error(end, 1, text);
    expect_error(end, 0, "fatal: the others gave up waiting for this rank, which was missing in ");
}

static void innocent(ProcessGroup *pg, float *numbers)
{
    sum(pg, numbers);
}

static void test_failure_that_nccl_reports(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    setenv("NCCL_STAND_IN_ERROR", "2", 1);
    expect_end(innocent, true,
               "NCCL failed during " OURS ": remote process exited or there was a network error",
               end);
    unsetenv("NCCL_STAND_IN_ERROR");
}

static void differing_body(Rank *rank)
{
    rank->args.check_collectives = true;
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, BACKEND_NCCL, rank->rank);
    float number = 0;
    broadcast(&pg, &number, 1, FLOAT32, rank->rank == 1);
}

static void test_calls_that_differ(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, differing_body, NULL, end);
    for (int rank = 0; rank < 3; rank++)
        expect_error_at_once(end, rank,
                             "the ranks' calls differ: rank 0 calls broadcast #0 of 1 float32 from "
                             "rank 0, rank 1 calls broadcast #0 of 1 float32 from rank 1");
}

/* Rank 0 is late, and reports all the time that it is alive. */
static void late_body(Rank *rank)
{
    ProcessGroup pg;
    rank->args.timeout = TIMEOUT;
    gpu_rank_join(rank, &pg, BACKEND_NCCL, rank->rank);
    const float zeros[NUMEL] = { 0 };
    float *numbers = gpu_array_new(zeros, sizeof zeros);
    sum(&pg, numbers);
    const double end = seconds_now() + 1.5 * TIMEOUT;
    while (rank->rank == 0 && seconds_now() < end) {
        process_group_keep_alive(&pg);
        usleep(1000);
    }
    sum(&pg, numbers);
    process_group_destroy(&pg);
}

static void test_rank_that_is_late_but_alive(void **state)
{
    (void)state;
    ranks_run_well(3, late_body, NULL);
}

static void sharing_body(Rank *rank)
{
    ProcessGroup pg;
    if (rank->context != NULL)
        setenv(rank->context,
               strcmp(rank->context, "NCCL_HOSTID") == 0 && rank->rank == 0 ? "one" : "1", 1);
    gpu_rank_join(rank, &pg, BACKEND_NCCL, rank->rank / 2); // ranks 0 and 1 share the first
    process_group_destroy(&pg);
}

static void test_ranks_that_share_a_gpu(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    ranks_run(3, sharing_body, NULL, end);
    for (int rank = 0; rank < 3; rank++)
        assert_int_equal(end[rank].status, 2);
    if (strstr(end[0].errors, "--backend nccl wants a GPU for each rank, but ranks 0 and 1 share "
                              "GPU-") == NULL ||
        strstr(end[0].errors,
               "use --backend tcp, which may share one, or set NCCL_MULTI_RANK_GPU_ENABLE=1 ") ==
            NULL)
        fail_msg("%s", end[0].errors);
    ranks_run_well(2, sharing_body, "NCCL_HOSTID"); // according to NCCL's settings
    ranks_run_well(2, sharing_body, "NCCL_MULTI_RANK_GPU_ENABLE");
}

int main(void)
{
    setenv("CUDA_STAND_IN_DEVICES", "8", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dead_and_stopped_ranks),
        cmocka_unit_test(test_rank_that_stays_away),
        cmocka_unit_test(test_the_rank_that_serves_the_store),
        cmocka_unit_test(test_failure_that_nccl_reports),
        cmocka_unit_test(test_calls_that_differ),
        cmocka_unit_test(test_rank_that_is_late_but_alive),
        cmocka_unit_test(test_ranks_that_share_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
