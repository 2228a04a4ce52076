/* checkpoint.h - model, optimizer and position of a run in one safetensors file. */
#ifndef COMMON_IO_CHECKPOINT_H
#define COMMON_IO_CHECKPOINT_H

#include "common/base/args.h"
#include "common/data/dataset.h"
#include "common/data/sampler.h"
#include "common/nn/optim.h"

/* What a checkpoint is made of; all pointers are borrowed. */
typedef struct {
    const Args *args;
    Optimizer *optim; // and its model
    Sampler *sampler; // where the run stands
    const Dataset *dataset; // normalisation and classes travel along: inference needs them
    int world_size; // ranks of the run
    bool done; // nothing was left to do after checkpoint_load
} Checkpoint;

/* Rank 0 dies here, before the training, where args->checkpoint_dir is nothing to write into. */
void checkpoint_init(Checkpoint *checkpoint, const Args *args, Optimizer *optim, Sampler *sampler,
                     const Dataset *dataset, int world_size);

/* Brings model, optimizer and sampler to where args say: --resume FILE (everything), else
 * --init-from FILE (weights only), else a fresh start, which leaves them as they are. Returns the
 * epoch to go on with. Dies with one line on a file that is missing, damaged, of another model or
 * optimizer. Local: every rank reads for itself. */
int checkpoint_load(Checkpoint *checkpoint);

/* Writes DIR/epoch_N.safetensors, N being the epochs that are finished, and prints the line "Epoch
 * .. | Training checkpoint saved at ..". In the middle of an epoch (--max-steps) it does neither.
 * Local: call it on one rank only. */
void checkpoint_save(const Checkpoint *checkpoint);

/* The same at the end of training, wherever it stands: DIR/MODEL_DATASET.safetensors; the initial
 * state, if args ask for no epochs at all, is epoch_0. Where nothing was left to do, a file that is
 * there already may be of a longer run: it stays. */
void checkpoint_save_final(const Checkpoint *checkpoint);

#endif
