/* How batches reach a GPU whose memory other processes fill and free meanwhile, or on which other
 * models are made. */
#include "tests/cuda/stand_in_case.h"
#include "tests/cuda/training.h"

enum { STEPS = 10, FREED_AT = 6 }; // FREED_AT is in a replay if there is a graph

/* Records the losses of some steps. Until step FREED_AT there is no room for the data set. */
static void train(float losses[STEPS], bool graph, bool is_full)
{
    Training training;
    training_init(&training, "linear", graph);
    const size_t set_bytes =
        training.dataset.size * (training.dataset.features + 1) * sizeof(float);
    size_t available, total;
    CUDA_CHECK(cudaMemGetInfo(&available, &total));
    CHECK(available > 8 * set_bytes, "%zu bytes of memory: too little for the test", available);
    void *others = is_full ? device_malloc(&training.device, available - 2 * set_bytes) : NULL;
    for (int step = 0; step < STEPS; step++) {
        if (step == FREED_AT && is_full)
            device_release(&training.device, others);
        training_step(&training);
        losses[step] = model_loss(&training.model);
    }
}

static void full_body(const void *context)
{
    (void)context;
    setenv("CUDA_STAND_IN_MIB", "104", 1); // cuBLAS uses 32 of them in each run
    float roomy[STEPS], full[STEPS];
    train(roomy, true, false);
    for (int graph = 0; graph < 2; graph++) {
        train(full, graph, true);
        for (int step = 0; step < STEPS; step++)
            CHECK(full[step] == roomy[step], "graph %d, step %d: a loss of %g, not %g", graph, step,
                  (double)full[step], (double)roomy[step]);
    }
}

static void test_a_set_stays_where_it_is(void **state)
{
    (void)state;
    assert_right(full_body);
}

/* From step `first` on each step has two forward passes. */
static void twice_body(const void *first)
{
    Training training;
    training_init(&training, "linear", true);
    for (int step = 0; step < STEPS; step++) {
        if (step >= *(const int *)first)
            model_forward(&training.model, dataloader_next(&training.loader));
        training_step(&training);
    }
}

/* A graph holds one forward pass: a second is noticed while a step is recorded, and in a replay. */
static void test_a_second_forward_pass(void **state)
{
    (void)state;
    for (int first = 0; first < STEPS; first += FREED_AT)
        assert_dies_saying(twice_body, &first, 1,
                           "--cuda-graph on records steps of one forward pass, and this one has a "
                           "second: leave it out");
}

typedef struct {
    const char *first, *second; // models
    int second_batch;
} Pair;

/* Records the losses of some steps, amid which a second model is made on the device. */
static void train_beside(const Pair *pair, bool graph, float losses[2 * STEPS])
{
    Training training;
    training_init(&training, pair->first, graph);
    for (int step = 0; step < 2 * STEPS; step++) {
        if (step == STEPS) {
            Args args;
            Rng rng;
            Model second;
            args_defaults(&args, pair->second);
            rng_seed(&rng, 1);
            model_init(&second, &args, pair->second_batch, &rng, &training.device);
        }
        const Batch *batch = dataloader_next(&training.loader);
        model_zero_grad(&training.model);
        model_forward(&training.model, batch);
        const bool is_recorded = step == STEPS - 1 || step == 2 * STEPS - 1;
        CHECK(!is_recorded || training.device.replaying == graph, "step %d is a call", step);
        model_backward(&training.model);
        optim_step(&training.optim);
        losses[step] = model_loss(&training.model);
    }
}

static void beside_body(const void *context)
{
    float called[2 * STEPS], recorded[2 * STEPS];
    train_beside(context, false, called);
    train_beside(context, true, recorded);
    for (int step = 0; step < 2 * STEPS; step++)
        CHECK(called[step] == recorded[step], "step %d: a loss of %g, not %g", step,
              (double)recorded[step], (double)called[step]);
}

/* A larger batch moves the destination of a step's message, a larger model the kernels' scratch. */
static void test_a_second_model(void **state)
{
    (void)state;
    static const Pair pairs[] = { { "linear", "linear", 64 }, { "mlp", "cnn", BATCH_SIZE } };
    for (int i = 0; i < 2; i++)
        if (child_run(beside_body, &pairs[i]) != 0)
            fail_msg("%s beside %s: %s", pairs[i].second, pairs[i].first, err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_second_forward_pass),
        cmocka_unit_test(test_a_second_model),
        cmocka_unit_test(test_a_set_stays_where_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
