/*
 * training.h - what a training consists of, for the programs that time its steps, or saving it:
 * data set, sampler, loader, model and optimizer, from seed 0.
 */
#ifndef BENCH_TRAINING_H
#define BENCH_TRAINING_H

#include "common/base/log.h"
#include "common/nn/optim.h"

/* It must not be moved, because its parts point to each other. */
typedef struct {
    Device *device;
    Dataset dataset;
    Sampler sampler;
    DataLoader loader;
    Model model;
    Optimizer optim;
} Training;

/* drop_last as in DistributedSampler. */
static inline void training_init(Training *training, const Args *args, Device *device, int rank,
                                 int world_size, bool drop_last)
{
    Rng rng;
    rng_seed(&rng, 0);
    training->device = device;
    dataset_init(&training->dataset, args, TRAIN, &rng);
    distributed_sampler_init(&training->sampler, training->dataset.size, rank, world_size, true,
                             drop_last, 0);
    dataloader_init(&training->loader, &training->dataset, &training->sampler, args->batch_size);
    model_init(&training->model, args, args->batch_size, &rng, device);
    optim_init(&training->optim, args, &training->model, dataloader_num_batches(&training->loader));
}

static inline void training_free(Training *training)
{
    optim_free(&training->optim);
    model_free(&training->model);
    dataloader_free(&training->loader);
    sampler_free(&training->sampler);
    dataset_free(&training->dataset);
}

/* Returns the next full batch, over as many epochs as it takes. */
static inline const Batch *training_batch(Training *training)
{
    const int batch_size = training->loader.batch_size;
    CHECK(training->sampler.size >= (size_t)batch_size, "a batch of %d of %zu rows is never full",
          batch_size, training->sampler.size);
    const Batch *batch = dataloader_next(&training->loader);
    while (batch == NULL || batch->size < batch_size) {
        if (batch == NULL)
            sampler_set_epoch(&training->sampler, training->sampler.epoch);
        batch = dataloader_next(&training->loader);
    }
    return batch;
}

#endif
