/* find_unused_parameters with gradients on a GPU, whichever way they go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/comm/ddp.h"
#include "tests/cuda/gpu_ranks.h"

enum { NUM_PARAMETERS = 3, NUMEL = 1000, ROUNDS = 3 };

/* Used by both ranks, by the last rank alone, and by none. */
static const Tensor parameters[NUM_PARAMETERS] = {
    { .name = "both", .offset = 0, .numel = NUMEL },
    { .name = "last", .offset = NUMEL, .numel = NUMEL },
    { .name = "none", .offset = 2 * NUMEL, .numel = NUMEL },
};

static float gradient(int rank, int round, int k)
{
    return (float)(1 + k % 100 + 200 * rank + 1000 * round);
}

static float expected(const Rank *rank, int round, int k)
{
    if (k >= 2 * NUMEL)
        return gradient(rank->rank, round, k); // its own, as it was
    const float last = gradient(rank->world_size - 1, round, k);
    return k >= NUMEL ? last / 2 : (gradient(0, round, k) + last) / 2;
}

/* One backward pass. All gradients are there, but who does not use a parameter has zeros. */
static void run_pass(const Rank *rank, Reducer *reducer, int round)
{
    float grads[NUM_PARAMETERS * NUMEL] = { 0 };
    const bool is_last = rank->rank == rank->world_size - 1;
    for (int k = 0; k < NUM_PARAMETERS * NUMEL; k++)
        if (k / NUMEL != 1 || is_last)
            grads[k] = gradient(rank->rank, round, k);
    CUDA_CHECK(
        cudaMemcpyAsync(reducer->grads, grads, sizeof grads, cudaMemcpyHostToDevice, compute));
    if (is_last)
        reducer_mark_ready(reducer, 1);
    reducer_mark_ready(reducer, 0);
    reducer_finalize(reducer);
    gpu_array_read(grads, reducer->grads, sizeof grads);
    for (int k = 0; k < NUM_PARAMETERS * NUMEL; k++)
        CHECK(grads[k] == expected(rank, round, k), "round %d, gradient %d is %g, not %g", round, k,
              (double)grads[k], (double)expected(rank, round, k));
}

static void unused_body(Rank *rank, const char *backend)
{
    ProcessGroup pg;
    gpu_rank_join(rank, &pg, backend, rank->rank);
    const double caps[] = { 1e-9, 25 }; // a bucket for each parameter, and one for all
    for (int c = 0; c < 2; c++) {
        Reducer reducer;
        static const float zeros[NUM_PARAMETERS * NUMEL];
        float *grads = gpu_array_new(zeros, sizeof zeros);
        rank->args.bucket_cap_mb = caps[c];
        reducer_init(&reducer, &rank->args, &pg, grads, parameters, NUM_PARAMETERS);
        reducer.find_unused_parameters = true;
        for (int round = 0; round < ROUNDS; round++)
            run_pass(rank, &reducer, round);
        reducer_free(&reducer);
        gpu_array_free(grads);
    }
    process_group_destroy(&pg);
}

static void nccl_body(Rank *rank)
{
    unused_body(rank, "nccl");
}

static void tcp_body(Rank *rank)
{
    unused_body(rank, "tcp");
}

static void test_unused_parameters(void **state)
{
    (void)state;
    ranks_run_well(2, nccl_body, NULL);
    ranks_run_well(2, tcp_body, NULL);
}

int main(void)
{
    setenv("CUDA_STAND_IN_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unused_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
