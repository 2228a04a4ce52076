/*
 * cnn_step - the time of a whole training step of the CNN: gather, forward, loss, backward,
 * optimizer, dropout on. The median, because other work on the machine makes some steps longer. On
 * a GPU the host runs ahead as it does in training, and waits after each STEPS_AT_A_TIME steps.
 * Beside it: cnn_step.py, the same in PyTorch on a CPU; gpu_step.c is for several GPUs, too.
 *
 *     build/bench/cnn_step --batch-size 64 --threads 2 --max-steps 150      the options of train
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/median.h"
#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/nn/optim.h"

enum { WARM_UP = 20, DEFAULT_STEPS = 100, STEPS_AT_A_TIME = 20 };

/* Draws random rows of the set, which may be smaller than the batch. */
static void draw(Batch *batch, size_t *index, Rng *rng)
{
    for (int row = 0; row < batch->size; row++)
        index[row] = rng_next(rng) % batch->dataset->size;
}

/* Returns the seconds of a step: the mean of `steps`. */
static double run(Model *model, Optimizer *optim, Batch *batch, Rng *rng, int steps)
{
    const double begin = seconds_now();
    for (int step = 0; step < steps; step++) {
        draw(batch, (size_t *)batch->index, rng);
        model_zero_grad(model);
        model_forward(model, batch);
        model_backward(model);
        optim_step(optim);
    }
    if (model->device->ops->synchronize != NULL)
        model->device->ops->synchronize(model->device);
    return (seconds_now() - begin) / steps;
}

int main(int argc, char **argv)
{
    Args args;
    args_parse(&args, STEP_FAULT, argc, argv);
    char amp[ARGS_VALUE_BYTES];
    Device device;
    device_init(&device, &args, 0);
    Rng rng;
    rng_seed(&rng, args.seed);
    Dataset dataset;
    dataset_init(&dataset, &args, TRAIN, &rng);
    args.dataset = DATASET_MNIST; // so that the model does not limit its batches to the set's rows
    Model model;
    model_init(&model, &args, args.batch_size, &rng, &device);
    Optimizer optim;
    optim_init(&optim, &args, &model, 1);

    Batch batch = { .dataset = &dataset,
                    .index = mem_calloc((size_t)args.batch_size, sizeof *batch.index),
                    .size = args.batch_size,
                    .row_stride = 1 };
    const int at_a_time = device.place.on_gpu ? STEPS_AT_A_TIME : 1;
    const uint64_t steps = args.max_steps == UINT64_MAX ? DEFAULT_STEPS : args.max_steps;
    const int rounds = steps > (uint64_t)at_a_time ? (int)(steps / at_a_time) : 1;
    double *seconds = mem_calloc((size_t)rounds, sizeof *seconds);
    run(&model, &optim, &batch, &rng, device.place.on_gpu ? WARM_UP : WARM_UP / 4);
    for (int round = 0; round < rounds; round++)
        seconds[round] = run(&model, &optim, &batch, &rng, at_a_time);
    const double step = median(seconds, rounds);
    fprintf(stderr, "%.4f ms a step (%s, median of %d x %d steps)\n", 1e3 * step, device.name,
            rounds, at_a_time);
    printf("{\"case\": \"batch %d, %d thread%s, %s\", \"value\": %.6g, \"unit\": \"samples/s\"}\n",
           args.batch_size, device.threads, device.threads == 1 ? "" : "s",
           device.amp == AMP_OFF ? "fp32" : args_value(&args, args_option("amp"), amp),
           args.batch_size / step);

    free(seconds);
    free((size_t *)batch.index);
    optim_free(&optim);
    model_free(&model);
    dataset_free(&dataset);
    device_free(&device);
    return 0;
}
