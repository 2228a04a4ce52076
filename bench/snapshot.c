/*
 * snapshot - how long the training stands still for a snapshot of the CNN, which is the copy of the
 * state, and how long the writer is busy afterwards: checksum, write, fsync, rename. Medians, and
 * the lowest, because other work on the machine makes some longer.
 *
 *     build/bench/snapshot FOLDER [optimizer [snapshots]]
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/median.h"
#include "bench/results.h"
#include "bench/training.h"
#include "common/base/memory.h"
#include "common/base/words.h"
#include "common/save/checkpoint.h"

static void print(int fd, const char *what, double *seconds, int count)
{
    const double middle = median(seconds, count); // sorts them
    dprintf(fd, "  %s: %.2f ms, at least %.2f\n", what, 1e3 * middle, 1e3 * seconds[0]);
}

int main(int argc, char **argv)
{
    words_check(
        argc, argv, 3,
        "Usage: build/bench/snapshot FOLDER [optimizer [snapshots]]\n\n"
        "How long the training stands still for a snapshot, and how long its writer is busy.\n");
    CHECK(argc > 1, "which folder? see --help");
    Args args;
    args_defaults(&args, "cnn");
    args.checkpoint_dir = argv[1];
    option_set(args_option("optimizer"), &args, argc > 2 ? argv[2] : "sgd", NULL);
    args.threads = 1;
    const int count = argc > 3 ? atoi(argv[3]) : 50;

    Device device;
    device_init(&device, &args, 0);
    Training training;
    training_init(&training, &args, &device, 0, 1, false);
    Checkpoint checkpoint;
    checkpoint_init(&checkpoint, &args, &training.optim, &training.sampler, &training.dataset, 1);

    const int results = results_alone();
    double *copying = mem_calloc((size_t)count, sizeof *copying);
    double *writing = mem_calloc((size_t)count, sizeof *writing);
    for (int i = -3; i < count; i++) {
        CheckpointCopy copy;
        const double begin = seconds_now();
        checkpoint_copy(&checkpoint, "bench", checkpoint_next(&checkpoint), &copy);
        const double copied = seconds_now();
        CHECK(checkpoint_commit(&copy), "%s", copy.file.error);
        if (i >= 0) {
            copying[i] = copied - begin;
            writing[i] = seconds_now() - copied;
        }
    }
    dprintf(results, "%s, %.1f MB\n", training.optim.name,
            4e-6 * (double)(training.model.numel * (size_t)(1 + training.optim.num_states)));
    print(results, "the training waits", copying, count);
    print(results, "the writer takes", writing, count);

    free(copying);
    free(writing);
    training_free(&training);
    device_free(&device);
    return 0;
}
