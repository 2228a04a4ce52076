/* divergence.h - detects a failed training, whose weights are nan or infinite. */
#ifndef COMMON_BASE_DIVERGENCE_H
#define COMMON_BASE_DIVERGENCE_H

#include <stdint.h>

#include "common/base/args.h"

/* The first steps, counted from 1, with numbers that are not finite; 0: none so far. No step can
 * repair a weight that is nan, and an all-reduce spreads one rank's to all of them. */
typedef struct {
    uint32_t loss; // this rank's own loss
    uint32_t weights; // weights after the step; with fp16 the 50th skip in a row (LossScale)
} Divergence;

/* Reports weights that have diverged and ends this process with status 1; with --on-nan warn only
 * reports them, once. ddprun does not restart such a job. Local: for one rank, or ranks that do not
 * communicate; all_check_divergence is for the others. */
void check_divergence(const Args *args, Divergence divergence);

/* Prints the message, or unless prints records it for the launcher. divergence.loss is the
 * first of all ranks; `where` is " on ranks 1 and 3". Returns true if this process must end. */
bool divergence_report(const Args *args, Divergence divergence, const char *where, bool prints);

#endif
