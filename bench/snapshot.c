/*
 * snapshot - how long the training stands still for a snapshot of the CNN, which is the copy of the
 * state, and how long the writer is busy afterwards: checksum, write, fsync, rename. Medians, and
 * the lowest, since what else the machine does makes some longer.
 *
 *     build/bench/snapshot FOLDER [optimizer [snapshots]]
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/cnn_state.h"
#include "bench/median.h"
#include "common/base/memory.h"

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

    CnnState state;
    cnn_state_init(&state, &args);
    Checkpoint checkpoint;
    checkpoint_init(&checkpoint, &args, &state.optim, &state.sampler, &state.dataset, 1);

    const int results = results_alone();
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
    dprintf(results, "%s, %.1f MB\n", state.optim.name,
            4e-6 * (double)(state.model.numel * (size_t)(1 + state.optim.num_states)));
    print(results, "the training waits", copying, count);
    print(results, "the writer takes", writing, count);

    free(copying);
    free(writing);
    cnn_state_free(&state);
    return 0;
}
