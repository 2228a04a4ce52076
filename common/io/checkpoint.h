/* checkpoint.h - model, optimizer and position of a run in one safetensors file. */
#ifndef COMMON_IO_CHECKPOINT_H
#define COMMON_IO_CHECKPOINT_H

#include <limits.h>

#include "common/base/args.h"
#include "common/data/dataset.h"
#include "common/data/sampler.h"
#include "common/io/safetensors.h"
#include "common/nn/optim.h"

enum {
    CHECKPOINT_ERROR_BYTES = PATH_MAX + 1024, // has room for any line of the functions below
    CHECKPOINT_DIFFERENCE_BYTES = 256
};

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

/* As --resume does, but where the file will not do it says so, false and one line in error, and
 * nothing has changed. (--resume auto of step 05 has other files to try.) */
bool checkpoint_resume(Checkpoint *checkpoint, const char *path, char *error, size_t error_bytes);

/* Is the file whole, and could this run go on from it? Changes nothing; for any thread. */
bool checkpoint_verify(const Checkpoint *checkpoint, const char *path, char *error,
                       size_t error_bytes);

/* What stands in a checkpoint's header about where it belongs; not verified. */
typedef struct {
    bool is_this_run; // as to model, data set, seed, optimizer and global batch
    char difference[CHECKPOINT_DIFFERENCE_BYTES]; // if not: "seed 1, this run has 0"
    bool is_other_batch; // if not: it is the global batch alone
    uint64_t step;
    int epoch;
} CheckpointClaim;

/* Reads no more than the header. False, and one line in error, where that is damaged. */
bool checkpoint_peek(const Checkpoint *checkpoint, const char *path, CheckpointClaim *claim,
                     char *error, size_t error_bytes);

/* Is nothing left to train, by args->epochs and args->max_steps? */
bool checkpoint_done(const Checkpoint *checkpoint);

/* Which file: DIR/epoch_N, N being the epochs that are finished; DIR/MODEL_DATASET at the end of
 * training, wherever it stands; DIR/snapshot_eE_sS after S steps, in epoch E, which is not over
 * while it has not been evaluated. All are alike inside. */
typedef enum { CHECKPOINT_EPOCH, CHECKPOINT_FINAL, CHECKPOINT_SNAPSHOT } CheckpointKind;

/* A checkpoint on its way to the disk. */
typedef struct {
    Safetensors *file; // a copy of the state: training may go on
    CheckpointKind kind;
    int epoch; // that it belongs to, for the line
    uint64_t step;
    char path[PATH_MAX];
} CheckpointCopy;

/* Takes the copy: all that training has to wait for. */
void checkpoint_copy(const Checkpoint *checkpoint, CheckpointKind kind, CheckpointCopy *copy);

/* Writes it and prints the line "Epoch .. | Training checkpoint saved at ..", or snapshot; false,
 * with one line in error, where it cannot be written. Frees the copy. For any thread. */
bool checkpoint_commit(CheckpointCopy *copy, char *error, size_t error_bytes);

/* Is no epoch under way? Only then there is a checkpoint of one. */
bool checkpoint_between_epochs(const Checkpoint *checkpoint);

/* Both at once: an epoch's checkpoint. In the middle of an epoch (--max-steps) it writes none. Dies
 * where it cannot. Local: call it on one rank only. */
void checkpoint_save(const Checkpoint *checkpoint);

/* The same for a snapshot, wherever the run stands. */
void checkpoint_save_snapshot(const Checkpoint *checkpoint);

/* The same at the end of training. The initial state, if args ask for no epochs at all, is epoch_0.
 * Where nothing was left to do, a file that is there already may be of a longer run: it stays. */
void checkpoint_save_final(const Checkpoint *checkpoint);

#endif
