/*
 * join.h - training steps of ranks that have different numbers of batches.
 *
 * Every rank must make the collectives of every step. A rank whose batches have run out has joined:
 * it shadows the steps of the others, with gradients of zero, until all ranks have joined. As in
 * torch/distributed/algorithms/join.py and DDP's join hook, the sum of the gradients is divided by
 * all ranks, those that have joined included (divide_by_initial_world_size=True).
 */
#ifndef BEYOND_JOIN_H
#define BEYOND_JOIN_H

#include "common/comm/process_group.h"
#include "common/data/dataloader.h"

typedef struct {
    ProcessGroup *pg;
    DataLoader *loader;
    const Batch *batch; // batch of this step; NULL if this rank has joined
    size_t number; // number of the step in the epoch, the same on all ranks
    int num_active; // ranks that have a batch
} Join;

/* Begins an epoch, or continues a resumed one, where this rank may have no rows left. Call it after
 * sampler_set_epoch. Local. */
void join_begin(Join *join, ProcessGroup *pg, DataLoader *loader);

/* Goes on to this rank's next batch, or to none. Returns false if no rank has one. Collective, once
 * before each step. */
bool join_next(Join *join);

#endif
