/* checkpoint_file.h - what a checkpoint contains, and the checks of a file; for this room, step 05
 * and tools. */
#ifndef COMMON_SAVE_CHECKPOINT_FILE_H
#define COMMON_SAVE_CHECKPOINT_FILE_H

#include <limits.h>

#include "common/data/dataset.h"
#include "common/nn/optim.h"
#include "common/save/safetensors.h"

#define CHECKPOINT_VERSION_KEY "ddp_c_version" // identifies our files
#define CHECKPOINT_VERSION "1"
#define EXPORT_VERSION_KEY "ddp_c_export" // in its place in files with only weights
#define EXPORT_VERSION "1"
#define CHECKPOINT_STEP "optimizer.step" // int64, a scalar
#define CHECKPOINT_CHECKSUM "checksum" // of the tensors
#define CHECKPOINT_METADATA_CHECKSUM "metadata_checksum" // of all metadata but itself
#define CHECKPOINT_LOSS_SCALE "loss_scale" // in the metadata of runs with --amp fp16

/* The settings whose change is worth a warning, NULL-terminated. */
extern const char *const checkpoint_settings[];

enum { CHECKPOINT_ERROR_BYTES = PATH_MAX + 1024 }; // enough for any message below

/* A file to load from. On an error functions return false and a line in error that begins with the
 * path. They change nothing, and may be called by any thread. */
typedef struct {
    const char *path;
    Safetensors *file;
    const char *remedy; // appended to the reason why a file cannot be read; NULL: nothing
    char error[CHECKPOINT_ERROR_BYTES];
} Source;

/* A run's position. */
typedef struct {
    int epoch;
    size_t samples; // of the epoch that are done, over all ranks
    uint64_t step;
} Position;

/* Reads it all and verifies checksums, if there are any. Free source->file whatever it returns. */
bool source_open(Source *source);

/* A string of the metadata that is safe to print; NULL after an error. */
const char *source_text(Source *source, const char *key);

/* Is it the state of a run with this model and optimizer? */
bool source_check_run(Source *source, const Optimizer *optim);
bool source_check_position(Source *source, const Dataset *dataset, Position *position);

/* The tensor of that name, of the shape of parameter i, as floats in PyTorch's layout: the file's
 * own memory. Initial weights may have another precision: they are converted into `host`, which has
 * room for them. To resume, host is NULL, and they may not. NULL after an error. */
const float *source_read(Source *source, const char *name, const Model *model, int i, float *host);

/* The model's tensors, in float32, bfloat16 or float64, and nothing else. An error leaves the model
 * partly loaded. */
bool source_load_weights(Source *source, Model *model);

bool source_reject(Source *source, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
