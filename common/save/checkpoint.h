/* checkpoint.h - model, optimizer and position of a run in one safetensors file.
 *
 *     tensors     optimizer.step                       int64, a scalar
 *                 conv1.weight ...                     PyTorch's names and layout, float32
 *                 optimizer.conv1.weight.exp_avg ...   the optimizer's states, the same way
 *     metadata    ddp_c_version model dataset seed optimizer lr ...   what was run
 *                 epoch position step [loss_scale]     where it stood
 *                 input_shape class_labels mean std    what inference needs
 *                 tensors_checksum metadata_checksum   of the tensors, of the other metadata
 *
 * - To train: checkpoint_init and checkpoint_load; checkpoint_save after an epoch, on one rank;
 *   checkpoint_save_final at the end.
 * - To save while training goes on: checkpoint_copy, then checkpoint_commit in any thread.
 * - To choose one of many files: where checkpoint_load would die, checkpoint_verify and
 *   checkpoint_resume return false and leave a line in file->error that says why.
 * - To use the weights alone: checkpoint_open, checkpoint_load_weights, safetensors_free. */
#ifndef COMMON_SAVE_CHECKPOINT_H
#define COMMON_SAVE_CHECKPOINT_H

#include "common/base/args.h"
#include "common/data/sampler.h"
#include "common/nn/optim.h"
#include "common/save/safetensors.h"

typedef struct { // all pointers are borrowed
    const Args *args;
    Optimizer *optim; // the optimizer and its model
    Sampler *sampler; // the run's position
    const Dataset *dataset; // its normalisation and classes are saved too, for inference
    int world_size; // ranks of the run
    bool done; // checkpoint_load found nothing left to do
} Checkpoint;

/* Dies with a usage error on rank 0, before training, if args->checkpoint_dir is not writable. */
void checkpoint_init(Checkpoint *checkpoint, const Args *args, Optimizer *optim, Sampler *sampler,
                     const Dataset *dataset, int world_size);

/* Restores model, optimizer and sampler: --resume FILE (everything), else --init-from FILE (weights
 * only), else a fresh start, which leaves them unchanged. Returns the epoch to begin with. Usage
 * error if the file is missing, damaged, or of another model or optimizer, since a restart would
 * not help. Local. Every rank reads the file. */
int checkpoint_load(Checkpoint *checkpoint);

/* Saves DIR/epoch_N, N being the epochs that are finished; does nothing inside an epoch
 * (--max-steps). Dies on failure. Local. */
void checkpoint_save(const Checkpoint *checkpoint);

/* Saves DIR/MODEL_DATASET at the end of training, even inside an epoch. The initial state, if args
 * ask for no epochs at all, is epoch_0. If nothing was left to do, an existing file is kept, since
 * it may be a longer run's. */
void checkpoint_save_final(const Checkpoint *checkpoint);

/* Write which of them, NAME of DIR/NAME.safetensors; return false if there is none, inside an
 * epoch, or if nothing was left to do. */
enum { CHECKPOINT_NAME_BYTES = 64 };
bool checkpoint_epoch_name(const Checkpoint *checkpoint, char name[CHECKPOINT_NAME_BYTES]);
bool checkpoint_final_name(const Checkpoint *checkpoint, char name[CHECKPOINT_NAME_BYTES]);

typedef struct {
    int epoch;
    size_t samples; // samples of the epoch that are done, over all ranks
    uint64_t step;
} Position;

Position checkpoint_next(const Checkpoint *checkpoint); // position of the next batch

/* A checkpoint to be written. It must not be moved: file points to step. */
typedef struct {
    Safetensors file;
    float *state; // a copy, the weights first, so that training may go on
    size_t num_weights;
    const char *kind; // "checkpoint"; this and its epoch are for the printed line
    int epoch;
    uint64_t step;
} CheckpointCopy;

/* Copies the state, which is at this position. Training only has to wait for this. */
void checkpoint_copy(const Checkpoint *checkpoint, const char *name, Position position,
                     CheckpointCopy *copy);

/* Writes it and prints the line "Epoch .. | Training checkpoint saved at ..". If weights are nan or
 * infinite (--on-nan warn), it warns and writes no file, which might replace a good one. Frees the
 * copy. Returns false and leaves a line in copy->file.error on failure. */
bool checkpoint_commit(CheckpointCopy *copy);

#define CHECKPOINT_VERSION_KEY "ddp_c_version" // identifies our files
#define CHECKPOINT_VERSION "1"
#define EXPORT_VERSION_KEY "ddp_c_export" // used instead in files with only weights
#define CHECKPOINT_STEP "optimizer.step"

/* The functions below return false or NULL on an error, with the reason in file->error. All but the
 * functions that load may be called by any thread. checkpoint_open reads a file, or the one in the
 * folder that tools/export made, and verifies its checksums, if it has any; checkpoint_verify does
 * so, too, and checks whether this run could resume from it, and where; checkpoint_resume is
 * --resume, and on failure changes nothing. */
bool checkpoint_open(Safetensors *file, const char *path);
bool checkpoint_verify(const Checkpoint *checkpoint, Safetensors *file, const char *path,
                       Position *position);
bool checkpoint_resume(Checkpoint *checkpoint, Safetensors *file, const char *path);

bool checkpoint_position(Safetensors *file, Position *position); // where the run stands

/* Returns the tensor of that name, of the shape of parameter i, float32 in PyTorch's layout, in the
 * file's own memory. Only an optimizer's state may have values that are not finite. */
const float *checkpoint_tensor(Safetensors *file, const char *name, const Model *model, int i);

/* Loads the model's tensors; others are ignored. An error leaves the model partly loaded. */
bool checkpoint_load_weights(Safetensors *file, Model *model);

/* Converts files of other programs (extras/comfort): gives the tensors that the model needs its
 * names, without those of wrappers, and float32 values. Returns false and leaves a line in
 * file->error if one is missing or cannot be used. */
bool adopt_weights(Safetensors *file, const Model *model);
bool adopt_file(Safetensors *file); // opens a model in several files; else says what it is instead

void checkpoint_add_checksums(Safetensors *file); // call it after all else

/* Returns the first setting from number i on that differs, with "PATH: was saved with seed 1, this
 * run has 0" in file->error. If it is one of the first six (up to the global batch), the file is
 * another run's; for a later one, which changes the course (OF_RUN), a warning is enough. */
enum { SETTING_GLOBAL_BATCH = 5, NUM_IDENTITY_SETTINGS, NO_SETTING = INT_MAX };
int checkpoint_difference(const Checkpoint *checkpoint, Safetensors *file, int i);

#endif
