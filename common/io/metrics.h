/*
 * metrics.h - what happens in each step: files for programs and TensorBoard, a bar on the terminal.
 *
 * In args->metrics_dir: rankR.jsonl, a line for each step of that rank; test.jsonl, a line for each
 * evaluation; run.json, what was run; and the curves of curves.h.
 */
#ifndef COMMON_IO_METRICS_H
#define COMMON_IO_METRICS_H

#include <stdio.h>

#include "common/base/args.h"
#include "common/io/curves.h"
#include "common/io/step_file.h"
#include "common/io/timeline.h"
#include "common/nn/model.h"

typedef struct {
    const Args *args;
    int rank;
    StepFile steps, tests; // DIR/rankR.jsonl; on rank 0 DIR/test.jsonl
    Curves curves; // where there is a --metrics-dir
    Timeline timeline; // where there is a --trace or --profile
    FILE *trace, *profile; // on rank 0
    size_t steps_per_epoch;
    uint64_t first_step, step; // that were done when this process took over, and are done now
    double begin;
} Metrics;

/* Opens args->metrics_dir/rankR.jsonl, if asked for, and drops what it says about steps after
 * model->step (all of it on a fresh start); starts the record for args->trace and args->profile.
 * Dies if what is asked for cannot be written. Collective over the default process group, if there
 * is one and any of this is asked for. */
void metrics_init(Metrics *metrics, const Args *args, const Model *model, int rank,
                  size_t steps_per_epoch);

/* After each step: one object with this rank's own loss, null where that is not finite; on rank 0
 * the progress bar moves. Collective likewise. */
void metrics_step(Metrics *metrics, const Model *model, int epoch);

/* Prints the result of an evaluation, the mean loss and how many of the `size` test images were
 * labelled correctly, and keeps it on rank 0. Local. */
void metrics_test(Metrics *metrics, int epoch, double loss, double correct, size_t size);

/* At the end, writes what was recorded. Collective likewise. */
void metrics_free(Metrics *metrics);

#endif
