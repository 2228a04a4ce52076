/*
 * trace - what --trace and --profile cost: training steps of the CNN with the reducer, recorded and
 * not in turns, and what a single span costs. The medians of rank 0, in the processor's time; on a
 * GPU, where there is one for each rank, by the clock.
 *
 *     03_torchrun_env/ddprun --nproc-per-node 2 build/bench/trace [turns [batch size: 64]]
 */
#include <stdlib.h>
#include <time.h>

#include "bench/median.h"
#include "bench/training.h"
#include "common/base/memory.h"
#include "common/base/words.h"
#include "common/comm/ddp.h"
#include "common/comm/env.h"
#include "extras/watch/timeline.h"
#include "extras/watch/watch_device.h"

enum { BATCH_SIZE = 64, STEPS = 10, SPANS = 100000 };

/* Returns the processor time of all threads, because other jobs lengthen the wall-clock time by far
 * more than the cost measured here; with a GPU, whose work it lacks, the wall-clock time. */
static double seconds_spent(Device *device)
{
    struct timespec time;
    if (device->place.on_gpu) {
        device->ops->synchronize(device);
        return seconds_now();
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double step_seconds(Training *training, Reducer *reducer)
{
    const double begin = seconds_spent(training->device);
    for (int step = 0; step < STEPS; step++) {
        const Batch *batch = training_batch(training);
        model_zero_grad(&training->model);
        model_forward(&training->model, batch);
        model_backward(&training->model);
        reducer_finalize(reducer);
        optim_step(&training->optim);
    }
    return (seconds_spent(training->device) - begin) / STEPS;
}

static double span_cost(void)
{
    const double begin = seconds_now();
    for (int i = 0; i < SPANS; i++) {
        span_begin(SPAN_FORWARD, i % 2 == 0 ? "even" : "odd");
        span_end();
    }
    return (seconds_now() - begin) / SPANS;
}

static void measure(Training *training, Reducer *reducer, ProcessGroup *pg, int turns)
{
    double *step[2] = { mem_calloc((size_t)turns, sizeof(double)),
                        mem_calloc((size_t)turns, sizeof(double)) };
    double *ratio = mem_calloc((size_t)turns, sizeof(double)), span = 0;
    size_t records = 0;
    step_seconds(training, reducer); // warms up
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < 2; i++) {
            const int recorded = (turn + i) % 2; // either is first in every other turn
            Timeline timeline;
            if (recorded) {
                watch_device(&training->model);
                timeline_start(&timeline, training->device->place.stream);
            }
            barrier(pg);
            step[recorded][turn] = step_seconds(training, reducer);
            if (recorded)
                records = (timeline.num_spans + timeline.num_calls) / STEPS;
            if (recorded && turn == turns - 1)
                span = span_cost();
            if (recorded) {
                unwatch_device();
                timeline_stop(&timeline);
                timeline_free(&timeline);
            }
        }
        ratio[turn] = step[1][turn] / step[0][turn] - 1;
    }
    if (pg->rank == 0)
        log_print("a step: %.3f ms, recorded %.3f ms, %+.2f %% (median of %d turns); a span: "
                  "%.0f ns; %zu records a step, %.3f %% of it",
                  1e3 * median(step[0], turns), 1e3 * median(step[1], turns),
                  100 * median(ratio, turns), turns, 1e9 * span, records,
                  100 * (double)records * span / median(step[0], turns));
    free(step[0]);
    free(step[1]);
    free(ratio);
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 2,
                "Usage: 03_torchrun_env/ddprun --nproc-per-node 2 build/bench/trace [turns [batch "
                "size]]\n\n"
                "What --trace and --profile cost.\n");
    const int turns = argc > 1 ? atoi(argv[1]) : 31;
    const int batch_size = argc > 2 ? atoi(argv[2]) : BATCH_SIZE;
    CHECK(turns > 0 && batch_size > 0, "turns and batch size are numbers from 1 on");
    Args args;
    args_defaults(&args, "cnn");
    args.batch_size = batch_size;
    args.threads = 1;
    const int rank = env_int("RANK"), world_size = env_int("WORLD_SIZE");
    log_set_rank(rank, world_size);
    Device device;
    device_init(&device, &args, env_int("LOCAL_RANK"));
    ProcessGroup pg;
    process_group_init(&pg, &args, env_str("MASTER_ADDR"), env_int("MASTER_PORT"), rank, world_size,
                       device.place);
    Training training;
    training_init(&training, &args, &device, rank, world_size, true);
    Model *model = &training.model;
    Reducer reducer;
    reducer_init(&reducer, &args, &pg, model->grads, model->parameter, model->num_parameters);
    model_set_grad_hook(model, reducer_mark_ready, &reducer);

    measure(&training, &reducer, &pg, turns);

    reducer_free(&reducer);
    training_free(&training);
    process_group_destroy(&pg);
    device_free(&device);
    return 0;
}
