/*
 * curves.h - a run's curves in TensorBoard: its progress, its speed, and how its time is spent.
 *
 *   train/loss, train/gradient_norm, train/lr     of the group's batch: losses averaged over ranks
 *   test/loss, test/accuracy                      after each epoch
 *   speed/samples_per_second                      of all ranks together, evaluations aside
 *   time/data, forward, backward, wait, optimizer shares of rank 0's time, in percent
 *
 * Beside them the settings of the run, for its HParams tab, and where each rank is, as a text.
 */
#ifndef EXTRAS_WATCH_CURVES_H
#define EXTRAS_WATCH_CURVES_H

#include "common/base/args.h"
#include "common/nn/optim.h"
#include "extras/watch/event_file.h"
#include "extras/watch/span.h"

typedef struct {
    EventFile events; // open on rank 0
    int rank;
    int interval; // steps between two points
    double lr; // the value of --lr
    LrSchedule schedule; // the schedule of lr
    int batch_size; // the batch size of one rank
    float *grads; // a copy of the gradients, in PyTorch's order or not
    double time, seconds[NUM_SPAN_KINDS]; // at the latest point
    uint64_t step; // at the latest point
} Curves;

/* Opens a file in args->metrics_dir, on rank 0. Points are drawn every args->log_interval steps.
 * Collective. */
void curves_init(Curves *curves, const Args *args, const Model *model, int rank,
                 size_t steps_per_epoch);

/* Called after each step. Collective, at the steps that are points. */
void curves_step(Curves *curves, const Model *model);

/* Called after an evaluation, on rank 0. */
void curves_test(Curves *curves, uint64_t step, double loss, double accuracy);
void curves_free(Curves *curves);

#endif
