/*
 * 02_multi_gpu_spawn, an aside - what DataParallel does, to be compared with what DDP does.
 *
 * One process, a replica of the model for each device, one thread per replica. Device 0 is the
 * master: in each step it hands the weights to all others, cuts the batch into pieces, adds up the
 * gradients and takes the optimizer's step. So device 0 sends or receives every byte that is moved.
 *
 *     make 02 && ./02_multi_gpu_spawn/data_parallel --nproc 2 --max-steps 20
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/rng.h"
#include "common/base/thread.h"
#include "common/data/dataloader.h"
#include "common/nn/optim.h"

typedef struct {
    Device device;
    Model model;
    Batch share; // of the batch
    pthread_t thread;
} Replica;

typedef struct {
    Replica *replica; // [num_replicas]; 0 is the master
    int num_replicas;
    uint64_t moved_bytes; // from the master and to it
} DataParallel;

static void *forward_and_backward(void *argument)
{
    Replica *replica = argument;
    if (replica->share.size == 0)
        return NULL;
    model_forward(&replica->model, &replica->share);
    model_backward(&replica->model);
    return NULL;
}

/* Consecutive rows for each replica. A row keeps its place, so it meets the same dropout mask. */
static void scatter_batch(DataParallel *dp, const Batch *batch)
{
    int start = 0;
    for (int i = 0; i < dp->num_replicas; i++) {
        const int end = (int)((int64_t)batch->size * (i + 1) / dp->num_replicas);
        Batch *share = &dp->replica[i].share;
        *share = *batch;
        share->index = batch->index + start;
        share->size = end - start;
        share->first_row = batch->first_row + start * batch->row_stride;
        start = end;
    }
}

static void replicate_params(DataParallel *dp)
{
    const Model *master = &dp->replica[0].model;
    for (int i = 0; i < dp->num_replicas; i++) {
        Replica *replica = &dp->replica[i];
        model_zero_grad(&replica->model);
        replica->model.step = master->step;
        if (i == 0)
            continue;
        const size_t bytes = master->numel * sizeof(float);
        device_copy(&replica->device, replica->model.params, master->params, bytes, COPY_ON_DEVICE);
        dp->moved_bytes += bytes;
    }
}

/* Each share's gradient is a mean over its own rows, so its weight is the share's size. */
static void reduce_grads(DataParallel *dp, int batch_size)
{
    float *sum = dp->replica[0].model.grads;
    const size_t numel = dp->replica[0].model.numel;
    for (int i = 0; i < dp->num_replicas; i++) {
        const float weight = (float)dp->replica[i].share.size / (float)batch_size;
        const float *grads = dp->replica[i].model.grads;
        for (size_t k = 0; k < numel; k++)
            sum[k] = (i > 0 ? sum[k] : 0) + weight * grads[k];
        dp->moved_bytes += i > 0 ? numel * sizeof(float) : 0;
    }
}

/* One step of gradient descent. */
static void run_batch(DataParallel *dp, Optimizer *optim, const Batch *batch)
{
    replicate_params(dp);
    scatter_batch(dp, batch);
    for (int i = 1; i < dp->num_replicas; i++)
        CHECK(thread_start(&dp->replica[i].thread, forward_and_backward, &dp->replica[i]) == 0,
              "cannot start a thread for replica %d", i);
    forward_and_backward(&dp->replica[0]);
    for (int i = 1; i < dp->num_replicas; i++)
        pthread_join(dp->replica[i].thread, NULL);
    reduce_grads(dp, batch->size);
    optim_step(optim);
}

static double mean_loss(const DataParallel *dp, int batch_size)
{
    double sum = 0;
    for (int i = 0; i < dp->num_replicas; i++)
        if (dp->replica[i].share.size > 0)
            sum += (double)model_loss(&dp->replica[i].model) * dp->replica[i].share.size;
    return sum / batch_size;
}

static void data_parallel_init(DataParallel *dp, const Args *args, int batch_size, const Rng *rng)
{
    dp->num_replicas = args->nproc;
    dp->replica = mem_calloc((size_t)dp->num_replicas, sizeof *dp->replica);
    for (int i = 0; i < dp->num_replicas; i++) {
        Replica *replica = &dp->replica[i];
        Rng weights = *rng; // the others' are overwritten in every step
        device_init(&replica->device, args, i);
        CHECK(!replica->device.place.on_gpu, "this aside adds up in host memory: --device cpu");
        model_init(&replica->model, args, batch_size, &weights, &replica->device);
    }
}

static void data_parallel_free(DataParallel *dp)
{
    for (int i = 0; i < dp->num_replicas; i++) {
        model_free(&dp->replica[i].model);
        device_free(&dp->replica[i].device);
    }
    free(dp->replica);
}

static void train(const Args *args)
{
    // Data: the whole set sits in host memory; sampler and loader say which rows form a batch.
    Rng rng;
    rng_seed(&rng, args->seed);
    Dataset train_set;
    dataset_init(&train_set, args, TRAIN, &rng);

    const int batch_size = args_batch_size(args, args->nproc) * args->nproc;
    const bool shuffle = true, drop_last = false; // one loader, for the batch of all devices
    Sampler sampler;
    distributed_sampler_init(&sampler, train_set.size, 0, 1, shuffle, drop_last, args->seed);
    DataLoader loader;
    dataloader_init(&loader, &train_set, &sampler, batch_size);

    // Model: one replica for each device, one optimizer for all.
    DataParallel dp = { 0 };
    data_parallel_init(&dp, args, batch_size, &rng);
    Model *master = &dp.replica[0].model;
    Optimizer optim;
    optim_init(&optim, args, master);

    double sum = 0, fastest = INFINITY; // seconds of the steps; of the sum the first is left out
    for (int epoch = 0; epoch < args->epochs && master->step < args->max_steps; epoch++) {
        sampler_set_epoch(&sampler, epoch);
        const Batch *batch;
        while (master->step < args->max_steps && (batch = dataloader_next(&loader)) != NULL) {
            const double begin = seconds_now();
            run_batch(&dp, &optim, batch);
            const double seconds = seconds_now() - begin;
            fastest = fmin(fastest, seconds);
            sum += master->step > 1 ? seconds : 0;
            if (batch->number % args->log_interval == 0)
                log_print("Train Epoch: %d [%zu/%zu] Loss: %.6f", epoch, batch->number * batch_size,
                          train_set.size, mean_loss(&dp, batch->size));
        }
    }
    const double steps = (double)master->step;
    if (steps > 1)
        log_print("device 0 sent and received %.0f bytes a step; a step took %.1f ms, the fastest "
                  "%.1f ms",
                  (double)dp.moved_bytes / steps, 1e3 * sum / (steps - 1), 1e3 * fastest);

    optim_free(&optim);
    data_parallel_free(&dp);
    dataloader_free(&loader);
    sampler_free(&sampler);
    dataset_free(&train_set);
}

int main(int argc, char **argv)
{
    Args args;
    args_parse(&args, STEP_SPAWN, argc, argv);
    if (args.nproc == 0)
        args.nproc = device_count(&args);
    train(&args);
    return 0;
}
