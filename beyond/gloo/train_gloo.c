/*
 * beyond/gloo, an aside - the same program in PyTorch's group: other ranks may run train.py.
 *
 * New: Gloo's protocol, and the calls of PyTorch's DistributedDataParallel, in its order. Gone: the
 * calls that only ranks in C make.
 */
#include "beyond/gloo/gloo.h"
#include "beyond/gloo/torch_ddp.h"
#include "beyond/gloo/torch_optim.h"
#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/comm/env.h"
#include "common/data/dataloader.h"
#include "common/nn/optim.h"
#include "common/save/checkpoint.h"
#include "common/save/metrics.h"

/* One step of gradient descent. */
static void run_batch(Model *model, Optimizer *optim, const Batch *batch, TorchDdp *ddp)
{
    torch_ddp_forward(ddp); // the second one brings rank 0's buckets
    model_zero_grad(model);
    model_forward(model, batch);
    model_backward(model); // notifies ddp as each gradient gets ready
    torch_ddp_finalize(ddp);
    optim_step(optim);
}

/* Prints loss and accuracy over the test set, in which every image counts once. */
static void evaluate(Model *model, const Dataset *test_set, int batch_size, int epoch,
                     Metrics *metrics, ProcessGroup *pg)
{
    Sampler sampler;
    sequential_sampler_init(&sampler, test_set->size, pg->rank, pg->world_size);
    DataLoader loader;
    dataloader_init(&loader, test_set, &sampler, batch_size);

    double sums[2] = { 0, 0 }; // loss, correct: one call, as in train.py
    model_eval(model);
    for (const Batch *batch; (batch = dataloader_next(&loader)) != NULL;) {
        model_forward(model, batch);
        sums[0] += (double)model_loss(model) * batch->size;
        sums[1] += model_correct(model);
    }
    model_train(model);

    all_reduce(pg, sums, 2, FLOAT64, REDUCE_SUM);
    if (pg->rank == 0)
        metrics_test(metrics, epoch, sums[0] / test_set->size, sums[1], test_set->size);

    dataloader_free(&loader);
    sampler_free(&sampler);
}

static void train(const Args *args)
{
    // rank is unique in the job; local_rank is unique on this machine and picks the device.
    const int rank = env_int("RANK");
    const int local_rank = env_int("LOCAL_RANK");
    const int world_size = env_int("WORLD_SIZE");
    const char *master_addr = env_str("MASTER_ADDR");
    const int master_port = env_int("MASTER_PORT");

    log_set_rank(rank, world_size);
    Device device;
    device_init(&device, args, local_rank);
    torch_optim_init(&device, args); // PyTorch's rounding

    // Rendezvous: the ranks find each other through a small store (TCPStore) at this address.
    ProcessGroup pg;
    gloo_group_init(&pg, args, master_addr, master_port, rank, world_size, device.place);

    // Data: the whole set sits in host memory; sampler and loader say which rows form a batch.
    Rng rng;
    rng_seed(&rng, args->seed);
    Dataset train_set, test_set;
    dataset_init(&train_set, args, TRAIN, &rng);
    dataset_init(&test_set, args, TEST, &rng);

    const int batch_size = args_batch_size(args, world_size);
    const bool shuffle = true, drop_last = false; // pads: all ranks get the same number of rows
    Sampler sampler;
    distributed_sampler_init(&sampler, train_set.size, rank, world_size, shuffle, drop_last,
                             args->seed);
    DataLoader loader;
    dataloader_init(&loader, &train_set, &sampler, batch_size);

    // Model: all parameters in one flat array, all gradients in another.
    if (rank > 0)
        rng_seed(&rng, args->seed + rank); // weights of its own, to be overwritten
    Model model;
    model_init(&model, args, batch_size, &rng, &device);
    Optimizer optim;
    optim_init(&optim, args, &model, dataloader_num_batches(&loader));

    Checkpoint checkpoint;
    checkpoint_init(&checkpoint, args, &optim, &sampler, &train_set, world_size);
    const int first_epoch = checkpoint_load(&checkpoint); // 0, unless --resume names a file
    TorchDdp ddp;
    torch_ddp_init(&ddp, args, &pg, &model); // all ranks start with rank 0's weights
    model_set_grad_hook(&model, torch_ddp_mark_ready, &ddp);
    Metrics metrics;
    metrics_init(&metrics, args, &model, rank, dataloader_num_batches(&loader));

    for (int epoch = first_epoch; epoch < args->epochs && model.step < args->max_steps; epoch++) {
        sampler_set_epoch(&sampler, epoch); // a different order in each epoch
        log_print("[%s%d] Epoch %d | Batchsize: %d | Steps: %zu", device.label, rank, epoch,
                  batch_size, dataloader_num_batches(&loader));

        const Batch *batch;
        while (model.step < args->max_steps && (batch = dataloader_next(&loader)) != NULL) {
            run_batch(&model, &optim, batch, &ddp);
            metrics_step(&metrics, &model, epoch);

            // Reading the loss makes the host wait for the device, so do it rarely.
            if (batch->number % args->log_interval == 0) {
                check_divergence(args, model_divergence(&model)); // the same on all ranks
                float loss = model_loss(&model);
                all_reduce(&pg, &loss, 1, FLOAT32, REDUCE_SUM);
                if (rank == 0)
                    log_print("Train Epoch: %d [%zu/%zu] Loss: %.6f", epoch,
                              batch->number * batch_size * world_size, train_set.size,
                              loss / world_size);
            }
        }
        check_divergence(args, model_divergence(&model)); // before it is saved

        if (test_set.size > 0) // the random set has none
            evaluate(&model, &test_set, batch_size, epoch, &metrics, &pg);
        if (rank == 0 && args->save_every > 0 && epoch % args->save_every == 0)
            checkpoint_save(&checkpoint);
    }

    if (rank == 0)
        checkpoint_save_final(&checkpoint);

    metrics_free(&metrics);
    torch_ddp_free(&ddp);
    process_group_destroy(&pg);
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
    args_parse(&args, STEP_ENV, argc, argv);
    train(&args);
    return 0;
}
