/*
 * ddp_step - what the ranks of 03 train together: samples per second of the CNN with the reducer,
 * one thread and a batch of 64 for each, digits in memory. `alone` leaves out all communication:
 * independent trainings at the same time, the upper bound. `in-step` only makes them wait for each
 * other after each step: a delay of one rank then delays all, which no backend can avoid. `caller`
 * is the reducer without the progress thread: nothing is sent before the training waits for it.
 * The processor time of all threads is printed, too: it shows what messages cost, whereas the
 * wall-clock time also includes the ranks' waiting for each other.
 * Beside it: ddp_step.py, the same with PyTorch's DDP over gloo.
 *
 *     03_torchrun_env/ddprun --nproc-per-node 2 build/bench/ddp_step [steps [alone|in-step|caller]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/training.h"
#include "common/base/words.h"
#include "common/comm/backend.h"
#include "common/comm/ddp.h"
#include "common/comm/env.h"

enum { BATCH_SIZE = 64, WARM_UP = 4 };

/* Starts a bucket without waking the progress thread; a wait may leave it the next one. */
static long start_quietly(void *state, const Collective *collective)
{
    Collective call = *collective;
    call.async = false;
    return backend_tcp.start(state, &call);
}

/* Runs steps. reducer may be NULL, and so may in_step, whose ranks meet after each step. */
static void run(Training *training, Reducer *reducer, ProcessGroup *in_step, int steps)
{
    for (int step = 0; step < steps; step++) {
        const Batch *batch = training_batch(training);
        model_zero_grad(&training->model);
        model_forward(&training->model, batch);
        model_backward(&training->model);
        if (reducer != NULL)
            reducer_finalize(reducer);
        optim_step(&training->optim);
        if (in_step != NULL)
            barrier(in_step);
    }
}

static double processor_seconds(void)
{
    struct timespec time;
    SYS_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time));
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Measures each rank from a common start until this rank is done. */
static void measure(Training *training, Reducer *reducer, ProcessGroup *in_step, ProcessGroup *pg,
                    int steps)
{
    run(training, reducer, in_step, WARM_UP);
    barrier(pg);
    const double begin = seconds_now(), begin_spent = processor_seconds();
    run(training, reducer, in_step, steps);
    const double rate = steps * BATCH_SIZE / (seconds_now() - begin);
    const double spent = 1e3 * (processor_seconds() - begin_spent) / steps;
    const double sum = all_reduce_scalar(pg, rate, REDUCE_SUM);
    const double mean = all_reduce_scalar(pg, spent, REDUCE_MEAN);
    if (pg->rank != 0)
        return;
    printf("{\"case\": \"%d ranks\", \"value\": %.6g, \"unit\": \"samples/s\"}\n", pg->world_size,
           sum);
    printf("{\"case\": \"%d ranks, processor's time of a step\", \"value\": %.6g, "
           "\"unit\": \"ms\"}\n",
           pg->world_size, mean);
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 2,
                "Usage: 03_torchrun_env/ddprun --nproc-per-node 2 build/bench/ddp_step [steps "
                "[alone|in-step|caller]]\n\n"
                "Samples per second that the ranks train together.\n");
    const int steps = argc > 1 ? atoi(argv[1]) : 40;
    const char *mode = argc > 2 ? argv[2] : "reducer";
    const bool in_step = strcmp(mode, "in-step") == 0, caller = strcmp(mode, "caller") == 0;
    const bool alone = in_step || strcmp(mode, "alone") == 0;
    CHECK(steps > 0, "%s steps: it is a number from 1 on", argv[1]);
    CHECK(alone || caller || argc < 3, "%s: there are alone, in-step and caller", mode);
    Args args;
    args_defaults(&args, "cnn");
    args.device = DEVICE_CPU;
    args.batch_size = BATCH_SIZE;
    args.threads = 1;
    const int rank = env_int("RANK"), world_size = env_int("WORLD_SIZE");
    log_set_rank(rank, world_size);
    Device device;
    device_init(&device, &args, rank);
    ProcessGroup pg;
    process_group_init(&pg, &args, env_str("MASTER_ADDR"), env_int("MASTER_PORT"), rank, world_size,
                       device.place);
    Backend without_thread = backend_tcp;
    without_thread.start = start_quietly;
    if (caller)
        pg.backend = &without_thread;
    Training training;
    training_init(&training, &args, &device, rank, world_size, true);
    Model *model = &training.model;
    Reducer reducer;
    reducer_init(&reducer, &args, &pg, model->grads, model->parameter, model->num_parameters);
    if (!alone)
        model_set_grad_hook(model, reducer_mark_ready, &reducer);

    measure(&training, alone ? NULL : &reducer, in_step ? &pg : NULL, &pg, steps);

    reducer_free(&reducer);
    process_group_destroy(&pg);
    training_free(&training);
    device_free(&device);
    return 0;
}
