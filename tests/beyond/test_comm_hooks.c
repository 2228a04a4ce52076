/* The hooks of beyond/comm_hooks: their results, their state, and what they do not change. */
#include <math.h>

#include "beyond/comm_hooks/bf16_hook.h"
#include "beyond/comm_hooks/power_sgd.h"
#include "common/base/log.h"
#include "tests/common/comm/ddp_training.h"
#include "tests/helpers/unit.h"

enum { N = 12, M = 20, NUMEL = N * M + N, STEPS = 5 };

/* A matrix and a bias. */
typedef struct {
    ProcessGroup pg;
    Tensor parameter[2];
    float grads[NUMEL];
    Reducer reducer;
} Layer;

static void layer_init(Layer *layer, Rank *rank)
{
    rank_join(rank, &layer->pg);
    layer->parameter[0] = (Tensor){ .name = "w", .shape = { N, M }, .ndim = 2, .numel = N * M };
    layer->parameter[1] =
        (Tensor){ .name = "b", .shape = { N }, .ndim = 1, .offset = N * M, .numel = N };
    reducer_init(&layer->reducer, &rank->args, &layer->pg, layer->grads, layer->parameter, 2);
}

static void layer_free(Layer *layer)
{
    reducer_free(&layer->reducer);
    process_group_destroy(&layer->pg);
}

static void send(Layer *layer)
{
    reducer_mark_ready(&layer->reducer, 1);
    reducer_mark_ready(&layer->reducer, 0);
    reducer_finalize(&layer->reducer);
}

static float drawn(int rank, int step, int k)
{
    return sinf((float)(1 + rank * 31 + step * 17) * (float)(k % 101 + 1));
}

static void bf16_body(Rank *rank)
{
    Layer layer;
    layer_init(&layer, rank);
    Bf16Hook hook;
    bf16_hook_init(&hook, &layer.reducer);
    for (int k = 0; k < NUMEL; k++)
        layer.grads[k] = k == 7 ? NAN : drawn(rank->rank, 0, k);
    send(&layer);
    bf16_hook_decompress(&hook);
    for (int k = 0; k < NUMEL; k++) {
        float mean = 0, largest = 0;
        for (int r = 0; r < rank->world_size; r++) {
            mean += drawn(r, 0, k) / (float)rank->world_size;
            largest = fmaxf(largest, fabsf(drawn(r, 0, k)));
        }
        const float got = layer.grads[k];
        CHECK(k == 7 ? isnan(got) : fabsf(got - mean) <= largest / 64, "gradient %d is %g, not %g",
              k, got, mean);
    }
    // Without sync the gradients stay as they are.
    reducer_set_sync(&layer.reducer, false);
    layer.grads[3] = 1.2345678F;
    send(&layer);
    bf16_hook_decompress(&hook);
    CHECK(layer.grads[3] == 1.2345678F, "without sync a gradient is rounded");
    bf16_hook_free(&hook);
    layer_free(&layer);
}

static void test_bf16_is_the_mean_within_its_precision(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 4; world_size++)
        ranks_run_well(world_size, bf16_body, NULL);
}

/* A gradient of rank 1 is returned unchanged; r is the context. */
static void exact_body(Rank *rank)
{
    Layer layer;
    layer_init(&layer, rank);
    PowerSgd power;
    power_sgd_init(&power, &layer.reducer, *(const int *)rank->context, 0);
    for (int k = 0; k < NUMEL; k++)
        layer.grads[k] =
            k < N * M ? cosf((float)(k / M)) * sinf((float)(k % M)) : (float)rank->rank;
    send(&layer);
    power_sgd_decompress(&power);
    for (int k = 0; k < NUMEL; k++) {
        const float due = k < N * M ? cosf((float)(k / M)) * sinf((float)(k % M))
                                    : (float)(rank->world_size - 1) / 2;
        CHECK(fabsf(layer.grads[k] - due) < 1e-5F, "gradient %d is %g, not %g", k, layer.grads[k],
              due);
    }
    power_sgd_free(&power);
    layer_free(&layer);
}

static void test_a_matrix_of_rank_1_travels_without_loss(void **state)
{
    (void)state;
    int rank = 1;
    for (int world_size = 1; world_size <= 4; world_size++)
        ranks_run_well(world_size, exact_body, &rank);
    rank = 2;
    ranks_run_well(2, exact_body, &rank);
}

/* Error feedback: the sum of all steps' results and the mean of the ranks' residuals is the sum
 * of all gradients. */
static void feedback_body(Rank *rank)
{
    Layer layer;
    layer_init(&layer, rank);
    PowerSgd power;
    power_sgd_init(&power, &layer.reducer, 2, 1);
    float given[NUMEL] = { 0 }, returned[NUMEL] = { 0 };
    for (int step = 0; step < STEPS; step++) {
        for (int k = 0; k < NUMEL; k++) {
            for (int r = 0; r < rank->world_size; r++)
                given[k] += drawn(r, step, k) / (float)rank->world_size;
            layer.grads[k] = drawn(rank->rank, step, k);
        }
        send(&layer);
        power_sgd_decompress(&power);
        for (int k = 0; k < NUMEL; k++)
            returned[k] += layer.grads[k];
        if (step == 0) // sent whole
            for (int k = 0; k < NUMEL; k++)
                CHECK(fabsf(returned[k] - given[k]) < 1e-6F, "gradient %d of step 0", k);
    }
    float most = 0;
    for (int k = 0; k < NUMEL; k++)
        most = fmaxf(most, fabsf(returned[k] - given[k]));
    CHECK(most > 0.1F, "nothing was compressed");
    all_reduce(&layer.pg, power.error, NUMEL, FLOAT32, REDUCE_MEAN);
    for (int k = 0; k < NUMEL; k++)
        CHECK(fabsf(returned[k] + power.error[k] - given[k]) < 1e-5F,
              "gradient %d: %g returned and %g kept of %g", k, returned[k], power.error[k],
              given[k]);
    power_sgd_free(&power);
    layer_free(&layer);
}

static void test_what_a_step_leaves_out_is_kept(void **state)
{
    (void)state;
    for (int world_size = 1; world_size <= 4; world_size++)
        ranks_run_well(world_size, feedback_body, NULL);
}

/* A layer without gradient, as on ranks that have joined, gives no NaN. */
static void zero_body(Rank *rank)
{
    Layer layer = { 0 };
    layer_init(&layer, rank);
    PowerSgd power;
    power_sgd_init(&power, &layer.reducer, 2, 0);
    for (int step = 0; step < 2; step++) {
        send(&layer);
        power_sgd_decompress(&power);
        for (int k = 0; k < NUMEL; k++)
            CHECK(layer.grads[k] == 0, "gradient %d is %g", k, layer.grads[k]);
    }
    power_sgd_free(&power);
    layer_free(&layer);
}

static void test_zeros_stay_zeros(void **state)
{
    (void)state;
    ranks_run_well(2, zero_body, NULL);
}

static void gpu_body(Rank *rank)
{
    Layer layer;
    layer_init(&layer, rank);
    layer.pg.place.on_gpu = true;
    if (rank->context != NULL)
        bf16_hook_init(&(Bf16Hook){ 0 }, &layer.reducer);
    else
        power_sgd_init(&(PowerSgd){ 0 }, &layer.reducer, 1, 0);
}

static void test_gpus_are_refused(void **state)
{
    (void)state;
    RankEnd end[MAX_RANKS];
    for (int is_bf16 = 0; is_bf16 <= 1; is_bf16++) {
        ranks_run(1, gpu_body, is_bf16 ? end : NULL, end);
        assert_int_equal(end[0].status, 2);
        assert_non_null(strstr(end[0].errors, "this hook is for --device cpu"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16_is_the_mean_within_its_precision),
        cmocka_unit_test(test_a_matrix_of_rank_1_travels_without_loss),
        cmocka_unit_test(test_what_a_step_leaves_out_is_kept),
        cmocka_unit_test(test_zeros_stay_zeros),
        cmocka_unit_test(test_gpus_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
