/* checkpoint.h - model, optimizer and position of a run in one safetensors file. */
#ifndef COMMON_IO_CHECKPOINT_H
#define COMMON_IO_CHECKPOINT_H

#include "common/base/args.h"
#include "common/data/dataset.h"
#include "common/data/sampler.h"
#include "common/nn/optim.h"

/* How far a run has come: what to do next. */
typedef struct {
    int epoch;
    size_t position; // places of that epoch done, over all ranks; 0 unless stopped in its middle
} TrainState;

/* What a checkpoint is made of; all pointers are borrowed. */
typedef struct {
    const Args *args;
    Optimizer *optim; // and its model
    const Dataset *dataset; // normalisation and classes travel along: inference needs them
    int world_size, batch_size; // of the run
} Checkpoint;

void checkpoint_init(Checkpoint *checkpoint, const Args *args, Optimizer *optim,
                     const Dataset *dataset, int world_size, int batch_size);

/* Brings model and optimizer to where args say: --resume FILE (everything), else --init-from FILE
 * (weights only), else a fresh start, which leaves them as they are. Dies with one line on a file
 * that is missing, damaged, of another model or optimizer. Local: every rank reads for itself. */
TrainState checkpoint_load(Checkpoint *checkpoint);

/* Writes DIR/epoch_N.safetensors, where N epochs are finished, or, for the end of training,
 * DIR/MODEL_DATASET.safetensors, and prints the line "Epoch .. | Training checkpoint saved at ..".
 * `epoch` is the one the line names, counted from 0. Local: call it on one rank only. */
void checkpoint_save(const Checkpoint *checkpoint, int epoch, TrainState state);
void checkpoint_save_final(const Checkpoint *checkpoint, int epoch, TrainState state);

#endif
