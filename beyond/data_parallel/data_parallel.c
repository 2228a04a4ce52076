/*
 * beyond/data_parallel, an aside - DataParallel, for comparison with DDP.
 *
 * One process, a replica of the model for each device, one thread per replica. In each step device
 * 0 hands out weights and rows, adds up the gradients and takes the optimizer's step.
 */
#include "beyond/data_parallel/replicas.h"
#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/data/dataloader.h"
#include "common/nn/optim.h"
#include "common/save/checkpoint.h"
#include "common/save/metrics.h"

/* One step of gradient descent. */
static void run_batch(Replicas *replicas, Optimizer *optim, const Batch *batch)
{
    replicas_scatter(replicas, batch);
    replicas_replicate(replicas);
    replicas_parallel_apply(replicas); // forward and backward, a thread for each replica
    replicas_reduce_add(replicas);
    optim_step(optim);
    replicas_end_step(replicas);
}

/* Prints loss and accuracy over the test set, in which every image counts once. */
static void evaluate(Model *model, const Dataset *test_set, int batch_size, int epoch,
                     Metrics *metrics)
{
    Sampler sampler;
    sequential_sampler_init(&sampler, test_set->size, 0, 1);
    DataLoader loader;
    dataloader_init(&loader, test_set, &sampler, batch_size);

    double loss = 0, correct = 0;
    model_eval(model);
    for (const Batch *batch; (batch = dataloader_next(&loader)) != NULL;) {
        model_forward(model, batch);
        loss += (double)model_loss(model) * batch->size;
        correct += model_correct(model);
    }
    model_train(model);

    metrics_test(metrics, epoch, loss / test_set->size, correct, test_set->size);

    dataloader_free(&loader);
    sampler_free(&sampler);
}

static void train(int world_size, const Args *args)
{
    Device device;
    device_init(&device, args, 0);

    // Data: the whole set sits in host memory; sampler and loader say which rows form a batch.
    Rng rng;
    rng_seed(&rng, args->seed);
    Dataset train_set, test_set;
    dataset_init(&train_set, args, TRAIN, &rng);
    dataset_init(&test_set, args, TEST, &rng);

    const int batch_size = args_batch_size(args, world_size);
    const bool shuffle = true, drop_last = false;
    Sampler sampler;
    distributed_sampler_init(&sampler, train_set.size, 0, 1, shuffle, drop_last, args->seed);
    DataLoader loader;
    dataloader_init(&loader, &train_set, &sampler, batch_size * world_size); // for all devices

    // Model: all parameters in one flat array, all gradients in another.
    Model model;
    model_init(&model, args, batch_size * world_size, &rng, &device);
    Optimizer optim;
    optim_init(&optim, args, &model, dataloader_num_batches(&loader));

    Checkpoint checkpoint;
    checkpoint_init(&checkpoint, args, &optim, &sampler, &train_set, world_size);
    const int first_epoch = checkpoint_load(&checkpoint); // 0, unless --resume names a file
    Replicas replicas;
    replicas_init(&replicas, args, &model, world_size, batch_size * world_size);
    Metrics metrics;
    metrics_init(&metrics, args, &model, 0, dataloader_num_batches(&loader));

    for (int epoch = first_epoch; epoch < args->epochs && model.step < args->max_steps; epoch++) {
        sampler_set_epoch(&sampler, epoch); // a different order in each epoch
        log_print("[%s%d] Epoch %d | Batchsize: %d | Steps: %zu", device.label, 0, epoch,
                  batch_size, dataloader_num_batches(&loader));

        const Batch *batch;
        while (model.step < args->max_steps && (batch = dataloader_next(&loader)) != NULL) {
            run_batch(&replicas, &optim, batch);
            metrics_step(&metrics, &model, epoch);

            // Reading the loss makes the host wait for the device, so do it rarely.
            if (batch->number % args->log_interval == 0) {
                check_divergence(args, model_divergence(&model));
                const double loss = replicas_mean_loss(&replicas);
                log_print("Train Epoch: %d [%zu/%zu] Loss: %.6f", epoch,
                          batch->number * batch_size * world_size, train_set.size, loss);
            }
        }
        check_divergence(args, model_divergence(&model)); // before it is saved

        if (test_set.size > 0) // the random set has none
            evaluate(&model, &test_set, batch_size, epoch, &metrics);
        if (args->save_every > 0 && epoch % args->save_every == 0)
            checkpoint_save(&checkpoint);
    }

    checkpoint_save_final(&checkpoint);

    metrics_free(&metrics);
    replicas_print(&replicas);
    replicas_free(&replicas);
    optim_free(&optim);
    model_free(&model);
    dataloader_free(&loader);
    sampler_free(&sampler);
    dataset_free(&test_set);
    dataset_free(&train_set);
    device_free(&device);
}

int main(int argc, char **argv)
{
    Args args;
    args_parse(&args, STEP_SPAWN, argc, argv);
    if (args.nproc == 0)
        args.nproc = device_count(&args);
    train(args.nproc, &args);
    return 0;
}
