/*
 * beyond/zero, an aside - ZeRO stage 2: the gradients in shards, too.
 *
 * New: a unit's gradients have a buffer only until its reduce_scatter is done. Two buffers serve
 * all units: a unit's gradients must be sent before the unit after the next is computed.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "beyond/zero/zero.h"
#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/comm/store/net.h"
#include "common/data/dataloader.h"
#include "common/save/checkpoint.h"
#include "common/save/metrics.h"

/* Waits until the gradients of the unit are sent, and keeps the mean of this rank's share. */
static void keep_own_grads(Zero *zero, ZeroUnit *done)
{
    if (done->grads == NULL)
        return; // kept already
    work_wait(done->work);
    device_copy(zero->model->device, done->own_grads,
                done->grads + (size_t)zero->pg->rank * done->share, done->share * sizeof(float),
                COPY_ON_DEVICE);
    done->grads = NULL; // the unit after the next gets the buffer
    zero_place(zero, done);
}

/* Gives a unit a buffer for its gradients, before its backward pass. */
static void before_layer(void *context, int layer, bool backward)
{
    Zero *zero = context;
    ZeroUnit *unit = zero_unit_of(zero, layer);
    if (!backward || layer != unit->last_layer)
        return;
    if (unit->number >= 2)
        keep_own_grads(zero, unit - 2); // it has the same buffer
    unit->grads = zero_grad_buffer(zero, unit);
    zero_place(zero, unit);
}

/* Gives each rank the mean of its share, once all gradients of a unit are ready. */
static void reduce_unit(void *context, int i)
{
    Zero *zero = context;
    ZeroUnit *unit = zero_unit_of(zero, i / 2);
    float *own = unit->grads + (size_t)zero->pg->rank * unit->share; // in place
    if (i == 2 * unit->first_layer)
        unit->work =
            reduce_scatter_async(zero->pg, unit->grads, own, unit->share, FLOAT32, REDUCE_MEAN);
}

/* One step of gradient descent. */
static void run_batch(Model *model, Zero *zero, const Batch *batch)
{
    model_zero_grad(model);
    model_forward(model, batch);
    model_backward(model); // calls reduce_unit
    for (int u = 0; u < zero->num_units; u++) {
        ZeroUnit *unit = &zero->unit[u];
        keep_own_grads(zero, unit);
        zero_step(zero, unit); // the share that this rank owns
        unit->work =
            all_gather_async(zero->pg, unit->own_params, unit->params, unit->share, FLOAT32);
    }
    for (int u = 0; u < zero->num_units; u++)
        work_wait(zero->unit[u].work);
    model->step++;
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
    Zero zero;
    zero_init(&zero, args, &pg, &model, &optim, ZERO_GRADS);
    model_set_layer_hooks(&model, before_layer, NULL, &zero);
    model_set_grad_hook(&model, reduce_unit, &zero);
    Metrics metrics;
    metrics_init(&metrics, args, &model, rank, dataloader_num_batches(&loader));

    for (int epoch = first_epoch; epoch < args->epochs && model.step < args->max_steps; epoch++) {
        sampler_set_epoch(&sampler, epoch); // a different order in each epoch
        log_print("[%s%d] Epoch %d | Batchsize: %d | Steps: %zu", device.label, rank, epoch,
                  batch_size, dataloader_num_batches(&loader));

        const Batch *batch;
        while (model.step < args->max_steps && (batch = dataloader_next(&loader)) != NULL) {
            run_batch(&model, &zero, batch);
            metrics_step(&metrics, &model, epoch);

            // Reading the loss makes the host wait for the device, so do it rarely.
            if (batch->number % args->log_interval == 0) {
                all_check_divergence(&pg, args, zero_divergence(&zero));
                const double loss = all_reduce_scalar(&pg, model_loss(&model), REDUCE_MEAN);
                if (rank == 0)
                    log_print("Train Epoch: %d [%zu/%zu] Loss: %.6f", epoch,
                              batch->number * batch_size * world_size, train_set.size, loss);
            }
        }
        all_check_divergence(&pg, args, zero_divergence(&zero)); // before it is saved

        if (test_set.size > 0) // the random set has none
            evaluate(&model, &test_set, batch_size, epoch, &metrics, &pg);
        const bool is_due = args->save_every > 0 && epoch % args->save_every == 0;
        if (is_due)
            zero_unshard(&zero); // the file equals DDP's
        if (is_due && rank == 0)
            checkpoint_save(&checkpoint);
        if (is_due)
            zero_reshard(&zero);
    }

    zero_unshard(&zero);
    if (rank == 0)
        checkpoint_save_final(&checkpoint);
    zero_reshard(&zero);

    metrics_free(&metrics);
    zero_free(&zero);
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
    if (args.nproc == 0)
        args.nproc = device_count(&args);
    return spawn(args.nproc, &args);
}
