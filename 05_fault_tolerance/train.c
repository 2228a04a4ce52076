/*
 * 05_fault_tolerance - the job survives killed ranks, lost nodes and the end of its time limit.
 *
 * New: snapshots of the whole state, written while the training goes on; every start resumes
 * from the furthest valid one; and a signal to one rank stops all of them after the same step.
 */
#include "05_fault_tolerance/diagnostics.h"
#include "05_fault_tolerance/snapshots.h"
#include "05_fault_tolerance/stop.h"
#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/comm/ddp.h"
#include "common/comm/dist_env.h"
#include "common/data/dataloader.h"
#include "common/data/scratch.h"
#include "common/nn/optim.h"
#include "common/save/checkpoint.h"
#include "common/save/metrics.h"

/* One step of gradient descent. */
static void run_batch(Model *model, Optimizer *optim, const Batch *batch, Reducer *reducer)
{
    model_zero_grad(model);
    model_forward(model, batch);
    model_backward(model); // notifies the reducer as each gradient gets ready
    reducer_finalize(reducer);
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

    double loss = 0, correct = 0;
    model_eval(model);
    for (const Batch *batch; (batch = dataloader_next(&loader)) != NULL;) {
        model_forward(model, batch);
        loss += (double)model_loss(model) * batch->size;
        correct += model_correct(model);
    }
    model_train(model);

    loss = all_reduce_scalar(pg, loss, REDUCE_SUM);
    correct = all_reduce_scalar(pg, correct, REDUCE_SUM);
    if (pg->rank == 0)
        metrics_test(metrics, epoch, loss / test_set->size, correct, test_set->size);

    dataloader_free(&loader);
    sampler_free(&sampler);
}

static int train(const Args *args)
{
    // rank is unique in the job; local_rank is unique on this machine and picks the device.
    DistEnv env;
    dist_env_init(&env);
    const int rank = env.rank;
    const int local_rank = env.local_rank;
    const int world_size = env.world_size;

    log_set_rank(rank, world_size);
    Device device;
    device_init(&device, args, local_rank);
    dist_env_log(&env, device.name, device.place); // one line per rank: the job's map

    Diagnostics diagnostics;
    diagnostics_init(&diagnostics, args, rank, world_size); // records every collective in a file

    // Rendezvous: the ranks find each other through a small store (TCPStore) at this address.
    ProcessGroup pg;
    process_group_init(&pg, args, env.master_addr, env.master_port, rank, world_size, device.place);
    diagnostics_group(&diagnostics, &pg);
    process_group_set_nodes(&pg, args, env.node); // which ranks share a node: see --all-reduce

    // Data: one rank per node copies it from the shared disk; the others wait for the copy.
    if (local_rank == 0)
        scratch_fill(args);
    barrier(&pg);

    // The whole set sits in host memory; sampler and loader say which rows form a batch.
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
    Snapshots snapshots;
    snapshots_init(&snapshots, args, &checkpoint, &pg, &diagnostics.recorder);
    const int first_epoch = snapshots_resume(&snapshots); // rank 0 loads, then broadcasts its state
    Reducer reducer;
    reducer_init(&reducer, args, &pg, model.grads, model.parameter, model.num_parameters);
    model_set_grad_hook(&model, reducer_mark_ready, &reducer);
    diagnostics_model(&diagnostics, &optim); // see --inject, --check-sync
    Metrics metrics;
    metrics_init(&metrics, args, &model, rank, dataloader_num_batches(&loader));
    StopRequest stop;
    stop_init(&stop, &checkpoint, &reducer);

    for (int epoch = first_epoch; epoch < args->epochs && model.step < args->max_steps; epoch++) {
        sampler_set_epoch(&sampler, epoch); // a different order in each epoch
        log_print("[%s%d] Epoch %d | Batchsize: %d | Steps: %zu", device.label, rank, epoch,
                  batch_size, dataloader_num_batches(&loader));

        const Batch *batch;
        while (!stop_agreed(&stop) && model.step < args->max_steps &&
               (batch = dataloader_next(&loader)) != NULL) {
            run_batch(&model, &optim, batch, &reducer);
            metrics_step(&metrics, &model, epoch);
            diagnostics_step(&diagnostics);
            snapshots_step(&snapshots);

            // Reading the loss makes the host wait for the device, so do it rarely.
            if (batch->number % args->log_interval == 0) {
                snapshots_check_divergence(&snapshots);
                const double loss = all_reduce_scalar(&pg, model_loss(&model), REDUCE_MEAN);
                if (rank == 0)
                    log_print("Train Epoch: %d [%zu/%zu] Loss: %.6f", epoch,
                              batch->number * batch_size * world_size, train_set.size, loss);
            }
        }
        snapshots_check_divergence(&snapshots); // before it is saved

        if (stop.agreed) { // the next start resumes here
            snapshots_stop(&snapshots);
            break;
        }
        if (test_set.size > 0) // the random set has none
            evaluate(&model, &test_set, batch_size, epoch, &metrics, &pg);
        snapshots_epoch(&snapshots, epoch);
    }

    if (!stop.agreed)
        snapshots_final(&snapshots);

    metrics_free(&metrics);
    reducer_free(&reducer);
    snapshots_free(&snapshots);
    process_group_destroy(&pg);
    diagnostics_free(&diagnostics);
    optim_free(&optim);
    model_free(&model);
    dataloader_free(&loader);
    sampler_free(&sampler);
    dataset_free(&test_set);
    dataset_free(&train_set);
    device_free(&device);
    return stop.agreed ? EXIT_STOPPED : 0;
}

int main(int argc, char **argv)
{
    Args args;
    diagnostics_parse_args(&args, argc, argv); // with STEP_FAULT; checks --inject, too
    stop_listen(); // SIGTERM, SIGHUP, SIGUSR1 and SIGINT now mean: save and stop
    return train(&args);
}
