/*
 * gpu_step - a training step of the CNN on GPUs, dropout on, data on the GPU: its time and the
 * memory it takes. The host runs ahead as in training and waits every STEPS_AT_A_TIME steps;
 * the median of these rounds counts. With WORLD_SIZE in the environment it is one of several ranks,
 * which reduce their gradients over NCCL. Beside it: gpu_step.py, in PyTorch.
 *
 *     build/bench/gpu_step --batch-size 512 --cuda-graph on --max-steps 200      the options of
 * train
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/median.h"
#include "common/base/cuda.h"
#include "common/base/memory.h"
#include "common/comm/ddp.h"
#include "common/comm/env.h"
#include "common/nn/optim.h"

enum { WARM_UP = 20, SHORT_WARM_UP = 6, STEPS_AT_A_TIME = 20 }; // a CUDA graph needs four

typedef struct {
    Model model;
    Optimizer optim;
    Reducer *reducer; // NULL for one rank
    Batch batch;
    size_t *index; // the batch's rows
    Rng rng;
} Training;

/* Draws random rows of the set, which may be smaller than the batch. */
static void draw(Training *training)
{
    for (int row = 0; row < training->batch.size; row++)
        training->index[row] = rng_next(&training->rng) % training->batch.dataset->size;
}

/* Returns the seconds of a step: the mean of `steps`. */
static double run(Training *training, int steps)
{
    Device *device = training->model.device;
    const double begin = seconds_now();
    for (int step = 0; step < steps; step++) {
        draw(training);
        model_zero_grad(&training->model);
        model_forward(&training->model, &training->batch);
        model_backward(&training->model);
        if (training->reducer != NULL)
            reducer_finalize(training->reducer);
        optim_step(&training->optim);
    }
    if (device->ops->synchronize != NULL)
        device->ops->synchronize(device);
    return (seconds_now() - begin) / steps;
}

static double measure(Training *training, int steps)
{
    const int at_a_time = steps < STEPS_AT_A_TIME ? steps : STEPS_AT_A_TIME;
    const int rounds = steps / at_a_time;
    double *seconds = mem_calloc((size_t)rounds, sizeof *seconds);
    run(training, steps < STEPS_AT_A_TIME ? SHORT_WARM_UP : WARM_UP);
    for (int round = 0; round < rounds; round++)
        seconds[round] = run(training, at_a_time);
    const double step = median(seconds, rounds);
    free(seconds);
    return step;
}

/* Returns the GPU's free bytes. The first call creates its context, which does not count. */
static size_t free_bytes(int gpu)
{
    size_t left, all;
    CUDA_CHECK(cudaSetDevice(gpu));
    CUDA_CHECK(cudaMemGetInfo(&left, &all));
    return left;
}

static int number(const char *name, int otherwise)
{
    return getenv(name) != NULL ? env_int(name) : otherwise;
}

int main(int argc, char **argv)
{
    Args args;
    args_parse(&args, STEP_FAULT, argc, argv);
    args.device = DEVICE_CUDA;
    const int rank = number("RANK", 0), world_size = number("WORLD_SIZE", 1);
    const int local_rank = number("LOCAL_RANK", 0);
    log_set_rank(rank, world_size);
    const size_t left = free_bytes(local_rank);
    Device device;
    device_init(&device, &args, local_rank);
    ProcessGroup pg;
    if (world_size > 1)
        process_group_init(&pg, &args, env_str("MASTER_ADDR"), env_int("MASTER_PORT"), rank,
                           world_size, device.place);

    Training training = { .reducer = NULL };
    rng_seed(&training.rng, args.seed);
    Dataset dataset;
    dataset_init(&dataset, &args, TRAIN, &training.rng);
    args.dataset = DATASET_MNIST; // so that the model does not limit its batches to the set's rows
    model_init(&training.model, &args, args.batch_size, &training.rng, &device);
    optim_init(&training.optim, &args, &training.model, 1);
    training.index = mem_calloc((size_t)args.batch_size, sizeof *training.index);
    training.batch = (Batch){ .dataset = &dataset,
                              .index = training.index,
                              .size = args.batch_size,
                              .first_row = rank,
                              .row_stride = world_size };
    Model *model = &training.model;
    Reducer reducer;
    if (world_size > 1) {
        reducer_init(&reducer, &args, &pg, model->grads, model->parameter, model->num_parameters);
        model_set_grad_hook(model, reducer_mark_ready, &reducer);
        training.reducer = &reducer;
    }

    const int steps = args.max_steps == UINT64_MAX ? 200 : (int)args.max_steps;
    const double seconds = measure(&training, steps);
    if (rank == 0)
        printf("{\"seconds\": %.6g, \"memory\": %zu}\n", seconds, left - free_bytes(local_rank));

    if (world_size > 1) {
        reducer_free(&reducer);
        process_group_destroy(&pg);
    }
    free(training.index);
    optim_free(&training.optim);
    model_free(model);
    dataset_free(&dataset);
    device_free(&device);
    return 0;
}
