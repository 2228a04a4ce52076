/* metrics.h - in args->metrics_dir, rankR.jsonl: a line of JSON for each step of that rank; and
 * test.jsonl: a line for each evaluation. */
#ifndef COMMON_SAVE_METRICS_H
#define COMMON_SAVE_METRICS_H

#include <stdio.h>

#include "common/base/args.h"
#include "common/nn/model.h"

typedef struct {
    const Args *args;
    int rank;
    FILE *steps, *tests; // rankR.jsonl; on rank 0 test.jsonl; NULL if none, or given up
    uint64_t step; // steps done so far
} Metrics;

/* Opens args->metrics_dir/rankR.jsonl, if requested, and drops its lines about steps after
 * model->step (all of them on a fresh start). Dies if it cannot be written. */
void metrics_init(Metrics *metrics, const Args *args, const Model *model, int rank,
                  size_t steps_per_epoch);

/* Writes one object after each step, with this rank's own loss, null if it is not finite. */
void metrics_step(Metrics *metrics, const Model *model, int epoch);

/* Prints the result of an evaluation, the mean loss and how many of `size` test images were
 * classified correctly, and records it on rank 0. Local. */
void metrics_test(Metrics *metrics, int epoch, double loss, double correct, size_t size);

void metrics_free(Metrics *metrics); // local

/* Opens DIR/NAME, which may have lines of an earlier run, and drops those about steps after
 * last_step, which will be repeated (0: all of them). Line buffered, so that readers see whole
 * lines. Dies if it cannot be written. */
FILE *step_file_open(const char *dir, const char *name, uint64_t last_step);

/* The same calls for extras/watch. With --metrics-dir watch_step may be collective; the others are
 * local. All do nothing in builds without extras. */
void watch_init(const Args *args, const Model *model, int rank, size_t steps_per_epoch);
void watch_step(const Model *model, int epoch);
void watch_test(uint64_t step, double loss, double accuracy); // after an evaluation
void watch_save(uint64_t step, const char *path); // a checkpoint is about to be written
void watch_end(void);

#endif
