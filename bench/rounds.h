/*
 * rounds.h - a step that sleeps instead of computing, for the programs that docs/edits/rounds.sed
 * changes. What a step sends is real, and leaves when it would leave in a real step.
 *
 * The sleep stands for a GPU that computes beside the processor, so that other jobs on this machine
 * do not disturb the times. Its parts are those of payoff.c, where they are explained.
 */
#ifndef BENCH_ROUNDS_H
#define BENCH_ROUNDS_H

#include <errno.h>
#include <time.h>

#include "common/base/log.h"
#include "common/nn/model.h"

#define BEFORE_CONVOLUTIONS (15.0 / 27.3) // forward, and backward through fc2 and fc1
#define NUM_CONVOLUTION_PARAMETERS 4

static inline void sleep_until(double until)
{
    const struct timespec time = { (time_t)until, (long)(1e9 * (until - (double)(time_t)until)) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        continue;
}

/* Sleeps in place of forward, backward and optimizer; gradients get ready in their order. */
static inline void pretend_to_compute(Model *model, double seconds)
{
    const double begin = seconds_now();
    sleep_until(begin + BEFORE_CONVOLUTIONS * seconds);
    for (int i = model->num_parameters - 1; i >= 0; i--) {
        if (i + 1 == NUM_CONVOLUTION_PARAMETERS)
            sleep_until(begin + seconds);
        if (model->grad_hook != NULL)
            model->grad_hook(model->grad_hook_context, i);
    }
    model->step++;
}

/* Returns the processor time of this thread in seconds. */
static inline double thread_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
