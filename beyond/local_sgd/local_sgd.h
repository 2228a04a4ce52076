/*
 * local_sgd.h - ranks that train alone for some steps, and then average their weights: local SGD
 * (Stich, "Local SGD converges fast and communicates little", 2019).
 *
 * - Call local_sgd_init when all ranks have the same weights.
 * - Call local_sgd_step after each step of the optimizer. It ends a round every period-th step.
 * - Call local_sgd_average before you evaluate or save. It ends the round that has begun, if any.
 *
 * Like PyTorch's PeriodicModelAverager, it averages weights alone: each rank keeps the momentum of
 * its own optimizer. With a period of 1, and SGD without momentum, it computes what DDP computes.
 */
#ifndef BEYOND_LOCAL_SGD_LOCAL_SGD_H
#define BEYOND_LOCAL_SGD_LOCAL_SGD_H

#include "common/comm/process_group.h"
#include "common/nn/model.h"

typedef struct {
    ProcessGroup *pg;
    Model *model;
    int period; // steps of a round
    int steps; // steps taken in this round
} LocalSgd;

void local_sgd_init(LocalSgd *local, ProcessGroup *pg, Model *model, int period);
void local_sgd_step(LocalSgd *local); // collective where a round ends
void local_sgd_average(LocalSgd *local); // collective, if any step was taken since the last round

#endif
