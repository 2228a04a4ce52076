/*
 * checkpoint.h - model, optimizer and position of a run in one safetensors file.
 *
 *     tensors     optimizer.step                       int64, a scalar
 *                 conv1.weight ...                     PyTorch's names and layout, float32
 *                 optimizer.conv1.weight.exp_avg ...   the optimizer's states, likewise
 *     metadata    ddp_c_version model dataset seed optimizer lr ...   what was run
 *                 epoch position step [loss_scale]     where it stood
 *                 input_shape class_labels mean std    what inference needs
 *                 checksum metadata_checksum           CRC-32 of the tensors, of the other metadata
 *
 * - To train: checkpoint_init and checkpoint_load; checkpoint_save after an epoch, on one rank;
 *   checkpoint_save_final at the end.
 * - To save while training goes on: checkpoint_copy, then checkpoint_commit in any thread.
 * - To choose one of many files: where checkpoint_load would die, checkpoint_verify and
 *   checkpoint_resume return false and a line that says why.
 * - To use the weights alone: source_open, source_load_weights, safetensors_free.
 */
#ifndef COMMON_SAVE_CHECKPOINT_H
#define COMMON_SAVE_CHECKPOINT_H

#include <limits.h>

#include "common/base/args.h"
#include "common/data/sampler.h"
#include "common/nn/optim.h"
#include "common/save/safetensors.h"

/* What a checkpoint is made of; all pointers are borrowed. */
typedef struct {
    const Args *args;
    Optimizer *optim; // and its model
    Sampler *sampler; // the run's position
    const Dataset *dataset; // its normalisation and classes are saved too, for inference
    int world_size; // ranks of the run
    bool done; // checkpoint_load found nothing left to do
} Checkpoint;

/* Usage error on rank 0, before training, if args->checkpoint_dir is not writable. */
void checkpoint_init(Checkpoint *checkpoint, const Args *args, Optimizer *optim, Sampler *sampler,
                     const Dataset *dataset, int world_size);

/* Restores model, optimizer and sampler: --resume FILE (everything), else --init-from FILE (weights
 * only), else a fresh start, which leaves them unchanged. Returns the epoch to begin with. Usage
 * error if the file is missing, damaged, or of another model or optimizer, since a restart would
 * not help. Local: every rank reads the file. */
int checkpoint_load(Checkpoint *checkpoint);

/* Saves DIR/epoch_N, N being the epochs that are finished; does nothing inside an epoch
 * (--max-steps). Dies on failure. Local. */
void checkpoint_save(const Checkpoint *checkpoint);

/* The same at the end of training, even inside an epoch: DIR/MODEL_DATASET. The initial state, if
 * args ask for no epochs at all, is epoch_0. If nothing was left to do, an existing file is kept,
 * since it may be a longer run's. */
void checkpoint_save_final(const Checkpoint *checkpoint);

/* Which file: of an epoch, of the end, or DIR/snapshot_eE_sS after S steps, in epoch E, which ends
 * only when it has been evaluated. All have the same contents. */
typedef enum { CHECKPOINT_EPOCH, CHECKPOINT_FINAL, CHECKPOINT_SNAPSHOT } CheckpointKind;

/* Which file checkpoint_save_final would save; false: none. */
bool checkpoint_final_kind(const Checkpoint *checkpoint, CheckpointKind *kind);

/* A checkpoint to be written. It must not be moved: file points to step. */
typedef struct {
    Safetensors *file; // its tensors lie in state and step
    float *state; // a copy, the weights first: training may go on
    size_t num_weights;
    CheckpointKind kind;
    int epoch; // its epoch, for the printed line
    uint64_t step;
    char path[PATH_MAX];
} CheckpointCopy;

/* Copies the state. Training only has to wait for this. */
void checkpoint_copy(const Checkpoint *checkpoint, CheckpointKind kind, CheckpointCopy *copy);

/* Writes it and prints the line "Epoch .. | Training checkpoint saved at ..", or snapshot; false
 * and one line in error on failure. If weights are nan or infinite (--on-nan warn), it warns and
 * writes no file, which might replace a good one. Frees the copy. */
bool checkpoint_commit(CheckpointCopy *copy, char *error, size_t error_bytes);

/* A run's position. */
typedef struct {
    int epoch;
    size_t samples; // of the epoch that are done, over all ranks
    uint64_t step;
} Position;

/* The position of the next batch. */
Position checkpoint_next(const Checkpoint *checkpoint);

enum { CHECKPOINT_ERROR_BYTES = PATH_MAX + 1024 }; // enough for any message

/* A file to load from. On an error functions return false and a line in error that begins with the
 * path. Except for those that load they change nothing, and may be called by any thread. */
typedef struct {
    const char *path;
    Safetensors *file; // after source_open, also if it fails: to be freed
    char error[CHECKPOINT_ERROR_BYTES];
} Source;

/* As --resume; frees source->file. On failure changes nothing. */
bool checkpoint_resume(Checkpoint *checkpoint, Source *source);

/* Is the file valid, and could this run resume from it? If so, sets *position. Opens source. */
bool checkpoint_verify(const Checkpoint *checkpoint, Source *source, Position *position);

/* The settings that are compared. If one of the first six (up to the global batch) differs, the
 * file belongs to another run; if a later one differs, a warning is enough. */
typedef enum {
    SETTING_GLOBAL_BATCH = 5,
    NUM_IDENTITY_SETTINGS,
    NUM_SETTINGS = 10
} CheckpointSetting;
extern const char *const checkpoint_settings[NUM_SETTINGS];

/* The first setting from number i on in which the file differs, and in text "seed 1, this run has
 * 0"; NUM_SETTINGS: none. */
enum { CHECKPOINT_DIFFERENCE_BYTES = 256 };
int checkpoint_difference(const Checkpoint *checkpoint, const Safetensors *file, int i,
                          char text[CHECKPOINT_DIFFERENCE_BYTES]);

/* ---- what is in a file, and its checks (checkpoint_file.c) ---- */

#define CHECKPOINT_VERSION_KEY "ddp_c_version" // identifies our files
#define CHECKPOINT_VERSION "1"
#define EXPORT_VERSION_KEY "ddp_c_export" // in its place in files with only weights
#define EXPORT_VERSION "1"
#define CHECKPOINT_STEP "optimizer.step"
#define CHECKPOINT_CHECKSUM "checksum"
#define CHECKPOINT_METADATA_CHECKSUM "metadata_checksum"
#define CHECKPOINT_LOSS_SCALE "loss_scale" // of runs with --amp fp16

/* The path of the weights: path itself, or of the file in it if it is a folder that tools/export
 * made. */
const char *weights_file(const char *path, char in_folder[PATH_MAX]);

/* Reads it all and verifies the checksum of the tensors, if there is one. */
bool source_open(Source *source);

/* A string of the metadata that is safe to print; NULL after an error. */
const char *source_text(Source *source, const char *key);

/* Is it the state of a run with this model and optimizer? Where does it stand? */
bool source_check_run(Source *source, const Optimizer *optim);
bool source_check_position(Source *source, const Dataset *dataset, Position *position);

/* The tensor of that name, of the shape of parameter i, as floats in PyTorch's layout: the file's
 * own memory. Initial weights may have another precision: they are converted into `host`, which has
 * room for them. To resume, host is NULL, and they may not. NULL after an error. */
const float *source_read(Source *source, const char *name, const Model *model, int i, float *host);

/* The model's tensors, in float32, bfloat16 or float64; others are ignored. An error leaves the
 * model partly loaded. */
bool source_load_weights(Source *source, Model *model);

bool weights_are_finite(const float *values, size_t numel);

#define source_reject(source, ...) \
    file_reject((source)->path, (source)->error, sizeof(source)->error, __VA_ARGS__)

#endif
