/*
 * payoff - what overlap saves on a slow network: a step of the CNN without communication, with one
 * all-reduce after the backward pass (blocking, stage c of 02), and with the Reducer. The three
 * take turns, so that what disturbs the machine disturbs all of them.
 *
 *     03_torchrun_env/ddprun --nproc-per-node 2 build/bench/payoff TURNS [sleep] --simulate-network
 * 3gbit
 *
 * All options of train may follow. Each rank keeps to a core of its own, as if it had a machine of
 * its own. With `sleep` the ranks do not compute but sleep for as long as a quiet core of an AMD
 * EPYC computes (docs/how_fast.md): the sleep stands for a GPU that computes beside the processor,
 * and a busy machine spoils the times less. Rank 0 prints a line of milliseconds for each turn: a
 * step alone; a blocking one, and the part of it in which the training thread waited for messages
 * (exposed); the same two with the Reducer; and for each bucket the time from when it was complete
 * to the end of the backward pass. Before them comes a line with the bytes of each bucket.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/training.h"
#include "common/base/words.h"
#include "common/comm/ddp.h"
#include "common/comm/env.h"

#define BEFORE_CONVOLUTIONS 15.0e-3 // forward, and backward through fc2 and fc1; batch 64
#define BACKWARD_CONVOLUTIONS 12.3e-3
#define NUM_CONVOLUTION_PARAMETERS 4

enum { ALONE, BLOCKING, REDUCER, NUM_WAYS, WARM_UP = 3, MAX_BUCKETS = 64 };

static bool sleeps;

typedef struct {
    Reducer reducer;
    double complete_at[MAX_BUCKETS];
} Watched;

static void mark_ready(void *context, int i)
{
    Watched *watched = context;
    const int first = watched->reducer.next;
    reducer_mark_ready(&watched->reducer, i);
    for (int bucket = first; bucket < watched->reducer.next; bucket++)
        watched->complete_at[bucket] = seconds_now();
}

typedef struct {
    double whole, exposed, backward_end;
} StepTime;

static void sleep_until(double until)
{
    const struct timespec time = { (time_t)until, (long)(1e9 * (until - (double)(time_t)until)) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        continue;
}

static void pretend_to_compute(Model *model, Watched *watched, int way, double begin)
{
    sleep_until(begin + BEFORE_CONVOLUTIONS);
    for (int i = model->num_parameters - 1; i >= 0; i--) {
        if (i + 1 == NUM_CONVOLUTION_PARAMETERS)
            sleep_until(begin + BEFORE_CONVOLUTIONS + BACKWARD_CONVOLUTIONS);
        if (way == REDUCER)
            mark_ready(watched, i);
    }
}

static void keep_to_core(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        log_warning("there is no core %d for this rank: it shares one", core);
}

static StepTime step(Training *training, ProcessGroup *pg, Watched *watched, int way)
{
    Model *model = &training->model;
    const Batch *batch = training_batch(training);
    StepTime time;
    model_set_grad_hook(model, way == REDUCER ? mark_ready : NULL, watched);
    barrier(pg);
    const double begin = seconds_now();
    if (sleeps) {
        pretend_to_compute(model, watched, way, begin);
    } else {
        model_zero_grad(model);
        model_forward(model, batch);
        model_backward(model);
    }
    time.backward_end = seconds_now();
    if (way == BLOCKING)
        all_reduce(pg, model->grads, model->numel, FLOAT32, REDUCE_MEAN);
    else if (way == REDUCER)
        reducer_finalize(&watched->reducer);
    time.exposed = seconds_now() - time.backward_end;
    if (!sleeps)
        optim_step(&training->optim);
    time.whole = seconds_now() - begin;
    return time;
}

static void measure(Training *training, ProcessGroup *pg, Watched *watched, int turns)
{
    const Reducer *reducer = &watched->reducer;
    for (int j = 0; j < reducer->num_buckets && pg->rank == 0; j++)
        printf("%zu%c", reducer->bucket[j].numel * sizeof(float),
               j + 1 < reducer->num_buckets ? ' ' : '\n');
    for (int turn = -WARM_UP; turn < turns; turn++) {
        StepTime time[NUM_WAYS];
        for (int way = 0; way < NUM_WAYS; way++)
            time[way] = step(training, pg, watched, way);
        if (pg->rank > 0 || turn < 0)
            continue;
        printf("%.3f %.3f %.3f %.3f %.3f", 1e3 * time[ALONE].whole, 1e3 * time[BLOCKING].whole,
               1e3 * time[BLOCKING].exposed, 1e3 * time[REDUCER].whole,
               1e3 * time[REDUCER].exposed);
        for (int j = 0; j < reducer->num_buckets; j++)
            printf(" %.3f", 1e3 * (time[REDUCER].backward_end - watched->complete_at[j]));
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    words_check(argc < 2 ? argc : 2, argv, 1,
                "Usage: 03_torchrun_env/ddprun --nproc-per-node 2 build/bench/payoff TURNS [sleep] "
                "[options of train]\n\n"
                "What overlap saves on a slow network: milliseconds of each turn.\n");
    const int turns = argc > 1 ? atoi(argv[1]) : 0;
    CHECK(turns > 0, "how many turns? payoff TURNS [sleep] [options of train]");
    sleeps = argc > 2 && strcmp(argv[2], "sleep") == 0;
    Args args;
    args_parse(&args, STEP_ENV, argc - 1 - sleeps, argv + 1 + sleeps);
    const int rank = env_int("RANK"), world_size = env_int("WORLD_SIZE");
    log_set_rank(rank, world_size);
    keep_to_core(rank);
    Device device;
    device_init(&device, &args, rank);
    ProcessGroup pg;
    process_group_init(&pg, &args, env_str("MASTER_ADDR"), env_int("MASTER_PORT"), rank, world_size,
                       device.place);
    Training training;
    training_init(&training, &args, &device, rank, world_size, true);
    Model *model = &training.model;
    Watched watched;
    reducer_init(&watched.reducer, &args, &pg, model->grads, model->parameter,
                 model->num_parameters);

    measure(&training, &pg, &watched, turns);

    reducer_free(&watched.reducer);
    process_group_destroy(&pg);
    training_free(&training);
    device_free(&device);
    return 0;
}
