/* training.h - for tests: a training on a GPU, whose steps the test runs. */
#ifndef TESTS_CUDA_TRAINING_H
#define TESTS_CUDA_TRAINING_H

#include "common/base/rng.h"
#include "common/data/dataloader.h"
#include "common/nn/optim.h"

enum { BATCH_SIZE = 2 };

typedef struct {
    Args args;
    Device device;
    Dataset dataset;
    Sampler sampler;
    DataLoader loader;
    Model model;
    Optimizer optim;
} Training;

static inline void training_init(Training *training, const char *model, bool graph)
{
    Args *args = &training->args;
    args_defaults(args, model);
    args->device = DEVICE_CUDA;
    args->cuda_graph = graph;
    device_init(&training->device, args, 0);
    Rng rng;
    rng_seed(&rng, 0);
    dataset_init(&training->dataset, args, TRAIN, &rng);
    sequential_sampler_init(&training->sampler, training->dataset.size, 0, 1);
    dataloader_init(&training->loader, &training->dataset, &training->sampler, BATCH_SIZE);
    model_init(&training->model, args, BATCH_SIZE, &rng, &training->device);
    optim_init(&training->optim, args, &training->model, 1);
}

static inline void training_step(Training *training)
{
    const Batch *batch = dataloader_next(&training->loader);
    model_zero_grad(&training->model);
    model_forward(&training->model, batch);
    model_backward(&training->model);
    optim_step(&training->optim);
}

#endif
