/* metrics.h - what happens in each step: a JSON line in a file, and the bar on the terminal. */
#ifndef COMMON_IO_METRICS_H
#define COMMON_IO_METRICS_H

#include <stdio.h>

#include "common/base/args.h"
#include "common/nn/model.h"

typedef struct {
    FILE *file; // DIR/rankR.jsonl, or NULL
    int rank;
    size_t steps_per_epoch;
} Metrics;

/* Opens args->metrics_dir/rankR.jsonl, if asked for, and drops what it says about steps after
 * model->step (all of it on a fresh start). Local; dies if it cannot be written. */
void metrics_init(Metrics *metrics, const Args *args, const Model *model, int rank,
                  size_t steps_per_epoch);

/* After each step: one object with this rank's own loss, null where that is not finite; on rank 0
 * the progress bar moves. */
void metrics_step(Metrics *metrics, const Model *model, int epoch);
void metrics_free(Metrics *metrics);

#endif
