/*
 * beyond/batch_norm, an aside - a model with buffers: batch norm over all ranks.
 *
 * New: the sums that batch norm needs are reduced over the ranks in both passes, as in
 * SyncBatchNorm. So the batch is the global one, and all ranks have the same running averages.
 *
 *     make beyond && ./beyond/batch_norm/train_sync_batch_norm --nproc 2 --epochs 3
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "beyond/batch_norm/conv_net_checkpoint.h"
#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/rng.h"
#include "common/comm/ddp.h"
#include "common/comm/store/net.h"
#include "common/data/dataloader.h"

/* One step of gradient descent. */
static void run_batch(ConvNet *net, const Args *args, const Batch *batch, Reducer *reducer)
{
    conv_net_forward(net, batch); // reduces the sums of each batch norm
    conv_net_backward(net, reducer); // here, too
    reducer_finalize(reducer);
    conv_net_step(net, args);
}

/* Prints loss and accuracy over the test set, in which every image counts once. */
static void evaluate(ConvNet *net, const Dataset *test_set, int batch_size, int epoch,
                     ProcessGroup *pg)
{
    Sampler sampler;
    sequential_sampler_init(&sampler, test_set->size, pg->rank, pg->world_size);
    DataLoader loader;
    dataloader_init(&loader, test_set, &sampler, batch_size);

    double loss = 0, correct = 0;
    net->training = false;
    for (const Batch *batch; (batch = dataloader_next(&loader)) != NULL;) {
        conv_net_forward(net, batch);
        loss += (double)conv_net_loss(net) * batch->size;
        correct += conv_net_correct(net);
    }
    net->training = true;

    loss = all_reduce_scalar(pg, loss, REDUCE_SUM);
    correct = all_reduce_scalar(pg, correct, REDUCE_SUM);
    if (pg->rank == 0)
        log_print("Test Epoch: %d Loss: %.4f Accuracy: %.2f%% (%.0f/%zu)", epoch,
                  loss / (double)test_set->size, 100 * correct / (double)test_set->size, correct,
                  test_set->size);
    const double spread = conv_net_buffer_spread(net, pg);
    if (pg->rank == 0)
        log_print("Epoch %d | Buffers differ by %.4f between the ranks", epoch, spread);

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

    // Model: parameters and gradients as before, and buffers in an array of their own.
    if (rank > 0)
        rng_seed(&rng, args->seed + rank); // weights of its own, to be overwritten
    ConvNet net;
    conv_net_init(&net, args, batch_size, &rng, &device);
    conv_net_convert_sync_batch_norm(&net, &pg);

    const ConvNetCheckpoint checkpoint = { args, &net, &sampler, &train_set, world_size };
    const int first_epoch = conv_net_load(&checkpoint); // 0, unless --resume names a file
    broadcast(&pg, net.params, net.numel, FLOAT32, 0); // all ranks start with rank 0's weights
    Reducer reducer;
    reducer_init(&reducer, args, &pg, net.grads, net.parameter, NET_PARAMETERS);

    for (int epoch = first_epoch; epoch < args->epochs && net.step < args->max_steps; epoch++) {
        sampler_set_epoch(&sampler, epoch); // a different order in each epoch
        log_print("[%s%d] Epoch %d | Batchsize: %d | Steps: %zu", device.label, rank, epoch,
                  batch_size, dataloader_num_batches(&loader));

        const Batch *batch;
        while (net.step < args->max_steps && (batch = dataloader_next(&loader)) != NULL) {
            run_batch(&net, args, batch, &reducer);

            // Reading the loss makes the host wait for the device, so do it rarely.
            if (batch->number % args->log_interval == 0) {
                all_check_divergence(&pg, args, conv_net_divergence(&net));
                const double loss = all_reduce_scalar(&pg, conv_net_loss(&net), REDUCE_MEAN);
                if (rank == 0)
                    log_print("Train Epoch: %d [%zu/%zu] Loss: %.6f", epoch,
                              batch->number * batch_size * world_size, train_set.size, loss);
            }
        }
        all_check_divergence(&pg, args, conv_net_divergence(&net)); // before it is saved

        evaluate(&net, &test_set, batch_size, epoch, &pg);
        if (rank == 0 && args->save_every > 0 && epoch % args->save_every == 0)
            conv_net_save(&checkpoint, false);
    }

    if (rank == 0)
        conv_net_save(&checkpoint, true);

    reducer_free(&reducer);
    process_group_destroy(&pg);
    conv_net_free(&net);
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
    conv_net_parse_args(&args, argc, argv);
    if (args.nproc == 0)
        args.nproc = device_count(&args);
    return spawn(args.nproc, &args);
}
