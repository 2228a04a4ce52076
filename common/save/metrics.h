/*
 * metrics.h - what each step reports: files for programs and TensorBoard, a progress bar on the
 * terminal.
 *
 * In args->metrics_dir: rankR.jsonl, a line for each step of that rank; test.jsonl, a line for each
 * evaluation; run.json, what was run; and the curves of curves.h.
 */
#ifndef COMMON_SAVE_METRICS_H
#define COMMON_SAVE_METRICS_H

#include <stdio.h>

#include "common/base/args.h"
#include "common/io/curves.h"
#include "common/io/timeline.h"
#include "common/nn/model.h"
#include "common/save/step_file.h"

typedef struct {
    const Args *args;
    int rank;
    StepFile steps, tests; // DIR/rankR.jsonl; on rank 0 DIR/test.jsonl
    Curves curves; // with --metrics-dir
    Timeline timeline; // with --trace or --profile
    FILE *trace, *profile; // on rank 0
    size_t steps_per_epoch;
    uint64_t first_step, step; // done when this process started; done now
    double begin;
} Metrics;

/* Opens args->metrics_dir/rankR.jsonl, if requested, and drops its lines about steps after
 * model->step (all of them on a fresh start); starts recording for args->trace and args->profile.
 * Dies if a requested file cannot be written. Collective over the default process group, if there
 * is one and any of this is requested. */
void metrics_init(Metrics *metrics, const Args *args, const Model *model, int rank,
                  size_t steps_per_epoch);

/* After each step: one object with this rank's own loss, null if it is not finite; on rank 0 the
 * progress bar moves. Collective likewise. */
void metrics_step(Metrics *metrics, const Model *model, int epoch);

/* Prints the result of an evaluation, the mean loss and how many of the `size` test images were
 * classified correctly, and records it on rank 0. Local. */
void metrics_test(Metrics *metrics, int epoch, double loss, double correct, size_t size);

/* Writes what was recorded. Collective likewise. */
void metrics_free(Metrics *metrics);

#endif
