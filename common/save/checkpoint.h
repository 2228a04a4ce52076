/* checkpoint.h - model, optimizer and position of a run in one safetensors file. */
#ifndef COMMON_SAVE_CHECKPOINT_H
#define COMMON_SAVE_CHECKPOINT_H

#include "common/base/args.h"
#include "common/data/sampler.h"
#include "common/save/checkpoint_file.h"

/* What a checkpoint is made of; all pointers are borrowed. */
typedef struct {
    const Args *args;
    Optimizer *optim; // and its model
    Sampler *sampler; // the run's position
    const Dataset *dataset; // normalisation and classes travel along: inference needs them
    int world_size; // ranks of the run
    bool done; // checkpoint_load found nothing left to do
} Checkpoint;

/* Usage error on rank 0, before training, if args->checkpoint_dir is not writable. */
void checkpoint_init(Checkpoint *checkpoint, const Args *args, Optimizer *optim, Sampler *sampler,
                     const Dataset *dataset, int world_size);

/* Restores model, optimizer and sampler: --resume FILE (everything), else --init-from FILE (weights
 * only), else a fresh start, which leaves them unchanged. Returns the epoch to begin with. Usage
 * error if the file is missing, damaged, of another model or optimizer: it would be so after a
 * restart, too. Local: every rank reads the file. */
int checkpoint_load(Checkpoint *checkpoint);

/* As --resume, but if the file is unsuitable returns false and one line in source->error, and
 * changes nothing. (--resume auto of step 05 then tries other files.) */
bool checkpoint_resume(Checkpoint *checkpoint, Source *source);

/* Is the file valid, and could this run resume from it? Then also its position. Changes nothing;
 * for any thread. Free source->file whatever it returns. */
bool checkpoint_verify(const Checkpoint *checkpoint, Source *source, Position *position);

/* The first setting in which the file is of another run, and in text "seed 1, this run has 0". NULL
 * if model, data set, seed, optimizer and, the last to be compared, global_batch_size agree. */
enum { CHECKPOINT_DIFFERENCE_BYTES = 256 };
const char *checkpoint_difference(const Checkpoint *checkpoint, const Safetensors *file,
                                  char text[CHECKPOINT_DIFFERENCE_BYTES]);

/* The position of the next batch. */
Position checkpoint_next(const Checkpoint *checkpoint);

/* Which file: DIR/epoch_N, N being the epochs that are finished; DIR/MODEL_DATASET at the end of
 * training, wherever it stands; DIR/snapshot_eE_sS after S steps, in epoch E, which is not over
 * while it has not been evaluated. All are alike inside. */
typedef enum { CHECKPOINT_EPOCH, CHECKPOINT_FINAL, CHECKPOINT_SNAPSHOT } CheckpointKind;

/* A checkpoint to be written. It must not be moved: file points to step. */
typedef struct {
    Safetensors *file; // its tensors lie in state and step
    float *state; // a copy: training may go on
    CheckpointKind kind;
    int epoch; // its epoch, for the printed line
    uint64_t step;
    char path[PATH_MAX];
} CheckpointCopy;

/* Copies the state: training has to wait only for this. */
void checkpoint_copy(const Checkpoint *checkpoint, CheckpointKind kind, CheckpointCopy *copy);

/* Writes it and prints the line "Epoch .. | Training checkpoint saved at ..", or snapshot; false
 * and one line in error on failure. Frees the copy. For any thread. */
bool checkpoint_commit(CheckpointCopy *copy, char *error, size_t error_bytes);

/* Both at once. Dies on failure. Local: call it on one rank only. */
void checkpoint_write(const Checkpoint *checkpoint, CheckpointKind kind);

/* The same for an epoch's checkpoint; does nothing inside an epoch (--max-steps). */
void checkpoint_save(const Checkpoint *checkpoint);

/* The same at the end of training. The initial state, if args ask for no epochs at all, is epoch_0.
 * If nothing was left to do, an existing file may be a longer run's: it stays. */
void checkpoint_save_final(const Checkpoint *checkpoint);

#endif
