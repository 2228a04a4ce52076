/*
 * beyond/uneven, an aside - ranks that have different numbers of rows, and join.
 *
 * New: a rank without rows takes part in the others' steps, with gradients of zero, until all ranks
 * have joined it (torch.distributed.algorithms.Join).
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "beyond/uneven/join.h"
#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/comm/ddp.h"
#include "common/comm/store/net.h"
#include "common/data/dataloader.h"
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

/* Makes the other ranks' collectives of a step in their order, with gradients of zero. */
static void shadow_batch(Model *model, Optimizer *optim, Reducer *reducer)
{
    model_zero_grad(model);
    for (int i = model->num_parameters - 1; i >= 0; i--)
        reducer_mark_ready(reducer, i);
    reducer_finalize(reducer);
    optim_step(optim); // keeps weights and momentum equal to the others'
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

static void train(int rank, int world_size, int master_port, const Args *args)
{
    log_set_rank(rank, world_size);
    Device device;
    device_init(&device, args, rank);

    // Rendezvous: the ranks find each other through a small store (TCPStore) at this address.
    ProcessGroup pg;
    process_group_init(&pg, args, "localhost", master_port, rank, world_size, device.place);

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
    sampler.size = sampler.size * (size_t)(world_size - rank) / (size_t)world_size; // uneven
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
    broadcast(&pg, model.params, model.numel, FLOAT32, 0); // all ranks start with rank 0's weights
    Reducer reducer;
    reducer_init(&reducer, args, &pg, model.grads, model.parameter, model.num_parameters);
    model_set_grad_hook(&model, reducer_mark_ready, &reducer);
    Metrics metrics;
    metrics_init(&metrics, args, &model, rank, dataloader_num_batches(&loader));
    Join join;

    for (int epoch = first_epoch; epoch < args->epochs && model.step < args->max_steps; epoch++) {
        sampler_set_epoch(&sampler, epoch); // a different order in each epoch
        log_print("[%s%d] Epoch %d | Batchsize: %d | Steps: %zu", device.label, rank, epoch,
                  batch_size, dataloader_num_batches(&loader));

        join_begin(&join, &pg, &loader);
        while (model.step < args->max_steps && join_next(&join)) {
            if (join.batch != NULL)
                run_batch(&model, &optim, join.batch, &reducer);
            else
                shadow_batch(&model, &optim, &reducer);
            if (join.batch != NULL)
                metrics_step(&metrics, &model, epoch);

            // Reading the loss makes the host wait for the device, so do it rarely.
            if (join.number % args->log_interval == 0) {
                all_check_divergence(&pg, args, model_divergence(&model));
                const double mine = join.batch != NULL ? model_loss(&model) : 0;
                const double loss = all_reduce_scalar(&pg, mine, REDUCE_SUM) / join.num_active;
                if (rank == 0)
                    log_print("Train Epoch: %d [%zu/%zu] Loss: %.6f", epoch,
                              join.number * batch_size * world_size, train_set.size, loss);
            }
        }
        all_check_divergence(&pg, args, model_divergence(&model)); // before it is saved

        if (test_set.size > 0) // the random set has none
            evaluate(&model, &test_set, batch_size, epoch, &metrics, &pg);
        if (rank == 0 && args->save_every > 0 && epoch % args->save_every == 0)
            checkpoint_save(&checkpoint);
    }

    if (rank == 0)
        checkpoint_save_final(&checkpoint);

    metrics_free(&metrics);
    reducer_free(&reducer);
    process_group_destroy(&pg);
    optim_free(&optim);
    model_free(&model);
    dataloader_free(&loader);
    sampler_free(&sampler);
    dataset_free(&test_set);
    dataset_free(&train_set);
    device_free(&device);
}

/* Runs train() in world_size processes; returns the status of the first that failed, or 0. */
static int spawn(int world_size, const Args *args)
{
    const int master_port = net_free_port(); // free, but not reserved: see step 03
    secret_make(); // so that no other process can join through that port
    for (int rank = 0; rank < world_size; rank++) {
        const pid_t parent = getpid(), pid = fork();
        CHECK(pid >= 0, "cannot start rank %d: %s", rank, strerror(errno));
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // kills this rank when the parent ends
            if (getppid() == parent) // else the parent ended before the call above
                train(rank, world_size, master_port, args);
            return 0;
        }
    }

    // The first failure ends the parent and with it the other ranks, which might wait forever.
    for (int status; wait(&status) > 0;) {
        if (WIFSIGNALED(status))
            return 128 + WTERMSIG(status);
        if (status != 0)
            return WEXITSTATUS(status);
    }
    return 0;
}

int main(int argc, char **argv)
{
    Args args;
    args_parse(&args, STEP_SPAWN, argc, argv);
    if (args.lr_schedule != LR_CONSTANT)
        usage_error("--lr-schedule: the epochs of this aside differ in length by rank, so their "
                    "rates would differ; leave it out, or use train");
    if (args.nproc == 0)
        args.nproc = device_count(&args);
    return spawn(args.nproc, &args);
}
