/*
 * conv_net_checkpoint.h - the checkpoints of train_batch_norm.c: those of common/save, with
 * buffers.
 *
 * Besides the parameters a file has bn1.running_mean, bn1.running_var and bn1.num_batches_tracked,
 * under PyTorch's names, so load_state_dict accepts them. The ranks' buffers may differ; the file
 * has rank 0's, and a run resumes from those.
 */
#ifndef BEYOND_CONV_NET_CHECKPOINT_H
#define BEYOND_CONV_NET_CHECKPOINT_H

#include "beyond/batch_norm/conv_net.h"
#include "common/data/sampler.h"

/* What a checkpoint is made of; all pointers are borrowed. */
typedef struct {
    const Args *args;
    ConvNet *net;
    Sampler *sampler; // the run's position
    const Dataset *dataset;
    int world_size;
} ConvNetCheckpoint;

/* Restores everything from the file of --resume, if args name one. Returns the epoch to begin with.
 * Usage error if the file is missing, damaged or of another model. Local: every rank reads it. */
int conv_net_load(const ConvNetCheckpoint *checkpoint);

/* Saves DIR/epoch_N, unless inside an epoch (--max-steps), or if `final`, DIR/batch_norm_DATASET,
 * wherever the run stands. Dies on failure. Local: call it on one rank only. */
void conv_net_save(const ConvNetCheckpoint *checkpoint, bool final);

#endif
