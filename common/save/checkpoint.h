/* checkpoint.h - model, optimizer and position of a run in one safetensors file. */
#ifndef COMMON_SAVE_CHECKPOINT_H
#define COMMON_SAVE_CHECKPOINT_H

#include <limits.h>

#include "common/base/args.h"
#include "common/data/dataset.h"
#include "common/data/sampler.h"
#include "common/nn/optim.h"
#include "common/save/safetensors.h"

enum {
    CHECKPOINT_ERROR_BYTES = PATH_MAX + 1024, // enough for any message below
    CHECKPOINT_DIFFERENCE_BYTES = 256
};

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

/* As --resume, but if the file is unsuitable returns false and one line in error, and changes
 * nothing. (--resume auto of step 05 then tries other files.) */
bool checkpoint_resume(Checkpoint *checkpoint, const char *path, char *error, size_t error_bytes);

/* Is the file valid, and could this run resume from it? Changes nothing; for any thread. */
bool checkpoint_verify(const Checkpoint *checkpoint, const char *path, char *error,
                       size_t error_bytes);

/* What a checkpoint's header claims about its run; not verified. */
typedef struct {
    bool is_this_run; // same model, data set, seed, optimizer and global batch
    char difference[CHECKPOINT_DIFFERENCE_BYTES]; // if not: "seed 1, this run has 0"
    bool is_other_batch; // if not: only the global batch differs
    uint64_t step;
    int epoch;
} CheckpointClaim;

/* Reads only the header. False and one line in error if that is damaged. */
bool checkpoint_peek(const Checkpoint *checkpoint, const char *path, CheckpointClaim *claim,
                     char *error, size_t error_bytes);

/* Is nothing left to train, by args->epochs and args->max_steps? */
bool checkpoint_done(const Checkpoint *checkpoint);

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

/* Is the run between epochs? Only then can an epoch's checkpoint be saved. */
bool checkpoint_between_epochs(const Checkpoint *checkpoint);

/* Both at once. Dies on failure. Local: call it on one rank only. */
void checkpoint_write(const Checkpoint *checkpoint, CheckpointKind kind);

/* The same for an epoch's checkpoint; does nothing inside an epoch (--max-steps). */
void checkpoint_save(const Checkpoint *checkpoint);

/* The same at the end of training. The initial state, if args ask for no epochs at all, is epoch_0.
 * If nothing was left to do, an existing file may be a longer run's: it stays. */
void checkpoint_save_final(const Checkpoint *checkpoint);

#endif
