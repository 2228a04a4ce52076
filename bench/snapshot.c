/*
 * snapshot - how long the training stands still for a snapshot of the CNN, which is the copy of the
 * state, and how long the writer is busy afterwards: checksum, write, fsync, rename. Medians, and
 * the lowest, since what else the machine does makes some longer.
 *
 *     build/bench/snapshot FOLDER [optimizer [snapshots]]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/median.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/io/checkpoint.h"

static void print(int fd, const char *what, double *seconds, int count)
{
    const double middle = median(seconds, count); // sorts them
    dprintf(fd, "  %s: %.2f ms, at least %.2f\n", what, 1e3 * middle, 1e3 * seconds[0]);
}

int main(int argc, char **argv)
{
    CHECK(argc > 1, "usage: snapshot FOLDER [optimizer [snapshots]]");
    Args args;
    args_defaults(&args, "cnn");
    args.checkpoint_dir = argv[1];
    args.optimizer = argc > 2 ? argv[2] : "sgd";
    args.threads = 1;
    const int count = argc > 3 ? atoi(argv[3]) : 50;

    Device device;
    device_init(&device, &args, 0);
    Rng rng;
    rng_seed(&rng, 0);
    Dataset dataset;
    dataset_init(&dataset, &args, TRAIN, &rng);
    Sampler sampler;
    distributed_sampler_init(&sampler, dataset.size, 0, 1, true, false, 0);
    Model model;
    model_init(&model, &args, args.batch_size, &rng, &device);
    Optimizer optim;
    optim_init(&optim, &args, &model);
    Checkpoint checkpoint;
    checkpoint_init(&checkpoint, &args, &optim, &sampler, &dataset, 1);

    const int results = dup(STDOUT_FILENO); // the lines of the snapshots are none
    SYS_CHECK(dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO));
    double *copying = mem_calloc((size_t)count, sizeof *copying);
    double *writing = mem_calloc((size_t)count, sizeof *writing);
    for (int i = -3; i < count; i++) {
        char error[CHECKPOINT_ERROR_BYTES];
        CheckpointCopy copy;
        const double begin = seconds_now();
        checkpoint_copy(&checkpoint, CHECKPOINT_SNAPSHOT, &copy);
        const double copied = seconds_now();
        CHECK(checkpoint_commit(&copy, error, sizeof error), "%s", error);
        if (i >= 0) {
            copying[i] = copied - begin;
            writing[i] = seconds_now() - copied;
        }
    }
    dprintf(results, "%s, %.1f MB\n", optim.name,
            4e-6 * (double)(model.numel * (size_t)(1 + optim.num_states)));
    print(results, "the training waits", copying, count);
    print(results, "the writer takes", writing, count);

    free(copying);
    free(writing);
    optim_free(&optim);
    model_free(&model);
    sampler_free(&sampler);
    dataset_free(&dataset);
    device_free(&device);
    return 0;
}
