/*
 * diloco.h - local SGD whose rounds end with a step of an outer optimizer: DiLoCo (Douillard et
 * al., "DiLoCo: Distributed low-communication training of language models", 2023).
 *
 * What a round has changed, averaged over the ranks, counts as a gradient: the outer gradient is
 * the weights at the round's begin minus those at its end. The outer optimizer is SGD with Nesterov
 * momentum (torch.optim.SGD with nesterov=True). Its momentum is the same on all ranks, since it
 * comes from what was averaged; with a rate of 1 and no momentum this is local SGD.
 *
 * The calls are those of local_sgd.h, with these names. A checkpoint does not have the outer
 * momentum: a resumed run begins with none.
 */
#ifndef BEYOND_LOCAL_SGD_DILOCO_H
#define BEYOND_LOCAL_SGD_DILOCO_H

#include "common/comm/process_group.h"
#include "common/nn/model.h"

typedef struct {
    ProcessGroup *pg;
    Model *model;
    int period; // steps of a round
    int steps; // steps taken in this round
    float lr, momentum; // the outer optimizer's
    float *begin; // the weights with which the round began
    float *change; // the outer gradient
    float *velocity; // the outer momentum
} Diloco;

/* Usage error if the weights are on a GPU. Local. */
void diloco_init(Diloco *diloco, ProcessGroup *pg, Model *model, int period, float lr,
                 float momentum);
void diloco_step(Diloco *diloco); // collective where a round ends
void diloco_end_round(Diloco *diloco); // collective, if any step was taken since the last round
void diloco_free(Diloco *diloco);

#endif
