/*
 * Checks of a checkpoint before any of it is used: it must be complete, ours, of the same model and
 * optimizer, and every number in range. A check returns one line that says what is wrong: it may
 * end a program that was told to use this file, but not one that has others to try.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/log.h"
#include "common/base/options.h"
#include "common/save/checkpoint.h"

#define MAX_STEP (1ll << 53) // every count up to here is exact in a double too

/* Is the checksum of `what` the one that the file names? Only in our own files is it known what it
 * covers. */
static bool check_sum(Source *source, const char *key, uint32_t checksum, const char *what)
{
    char actual[9];
    snprintf(actual, sizeof actual, "%08x", checksum);
    const char *named = safetensors_metadata(source->file, key);
    const bool ours = safetensors_metadata(source->file, CHECKPOINT_VERSION_KEY) != NULL ||
                      safetensors_metadata(source->file, EXPORT_VERSION_KEY) != NULL;
    return !ours || named == NULL || strcmp(named, actual) == 0 ||
           source_reject(source, "is damaged: its %s; use another one", what);
}

const char *weights_file(const char *path, char in_folder[PATH_MAX])
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return path;
    const int length = snprintf(in_folder, PATH_MAX, "%s/model.safetensors", path);
    return length < PATH_MAX ? in_folder : path; // too long for any file: opening it says so
}

bool source_open(Source *source)
{
    source->file = safetensors_open(source->path, source->error, sizeof source->error);
    return source->file != NULL &&
           check_sum(source, CHECKPOINT_CHECKSUM, safetensors_checksum(source->file),
                     "tensors do not have the checksum it names");
}

/* "[1, 20]"; of very many dimensions only the first. */
static const char *shape_text(int ndim, const size_t *shape, char text[128])
{
    int length = sprintf(text, "[");
    for (int i = 0; i < ndim && length < 100; i++)
        length += sprintf(text + length, i > 0 ? ", %zu" : "%zu", shape[i]);
    strcpy(text + length, "]");
    return text;
}

/* Weights saved in another precision become float32. */
static const float *to_float32(const StoredTensor *stored, size_t numel, float *values)
{
    const double *wide = stored->data;
    const uint16_t *half = stored->data;
    for (size_t i = 0; i < numel; i++) {
        if (stored->type == FLOAT64)
            values[i] = (float)wide[i];
        else // a bfloat16 is the upper half of a float
            memcpy(&values[i], &(uint32_t){ (uint32_t)half[i] << 16 }, sizeof values[i]);
    }
    return values;
}

/* Without an early exit, so that the compiler can vectorize it. */
bool weights_are_finite(const float *values, size_t numel)
{
    int count = 0;
    for (size_t i = 0; i < numel; i++)
        count += isfinite(values[i]) == 0;
    return count == 0;
}

const float *source_read(Source *source, const char *name, const Model *model, int i, float *host)
{
    char theirs[128], ours[128];
    const Tensor *parameter = &model->parameter[i];
    const StoredTensor *stored = safetensors_find(source->file, name);
    const DType type = stored == NULL ? FLOAT32 : stored->type;
    if (stored == NULL)
        source_reject(source, "has no tensor \"%s\", which model %s needs", name, model->name);
    else if (type != FLOAT32 && (host == NULL || (type != FLOAT64 && type != BFLOAT16)))
        source_reject(source, "tensor \"%s\" is %s instead of float32", name, dtype_name(type));
    else if (stored->ndim != parameter->ndim ||
             memcmp(stored->shape, parameter->shape, (size_t)stored->ndim * sizeof(size_t)) != 0)
        source_reject(source, "tensor \"%s\" has shape %s, model %s needs %s", name,
                      shape_text(stored->ndim, stored->shape, theirs), model->name,
                      shape_text(parameter->ndim, parameter->shape, ours));
    else {
        const float *values =
            type == FLOAT32 ? stored->data : to_float32(stored, parameter->numel, host);
        // A nan or infinite weight stays so and spreads; an optimizer's state may recover.
        const bool is_state = host == NULL && strcmp(name, parameter->name) != 0;
        if (is_state || weights_are_finite(values, parameter->numel))
            return values;
        source_reject(source,
                      "tensor \"%s\" has values that are no numbers: its training had "
                      "failed; use an earlier checkpoint",
                      name);
    }
    return NULL;
}

const char *source_text(Source *source, const char *key)
{
    const char *text = safetensors_metadata(source->file, key);
    if (text == NULL)
        source_reject(source, "its metadata has no \"%s\"", key);
    for (const char *c = text; c != NULL && *c != '\0'; c++)
        if (iscntrl((unsigned char)*c)) {
            source_reject(source, "\"%s\" in its metadata is no plain text", key);
            return NULL;
        }
    return text;
}

static bool get_count(Source *source, const char *key, size_t max, uint64_t *count)
{
    const char *text = source_text(source, key);
    return text != NULL &&
           (parse_whole(text, 0, max, count) ||
            source_reject(source, "\"%s\" in its metadata is \"%s\", not a number from 0 to %zu",
                          key, text, max));
}

bool source_check_run(Source *source, const Optimizer *optim)
{
    const char *ours = optim->model->name;
    const char *version = safetensors_metadata(source->file, CHECKPOINT_VERSION_KEY);
    const char *model = safetensors_metadata(source->file, "model");
    const char *optimizer = safetensors_metadata(source->file, "optimizer");
    if (version == NULL)
        return source_reject(source,
                             "has weights, but not the state of a run; use --init-from %s to "
                             "start from them",
                             source->path);
    if (strcmp(version, CHECKPOINT_VERSION) != 0)
        return source_reject(
            source, "has format version %s, this program knows " CHECKPOINT_VERSION, version);
    for (int i = 0; i < NUM_SETTINGS; i++)
        if (source_text(source, checkpoint_settings[i]) == NULL)
            return false;
    if (strcmp(model, ours) != 0)
        return source_reject(source, "is of model %s; use --model %s, not %s", model, model, ours);
    if (strcmp(optimizer, optim->name) != 0)
        return source_reject(source,
                             "was saved with optimizer %s; use --optimizer %s, not %s, or "
                             "--init-from to take only the weights",
                             optimizer, optimizer, optim->name);

    // sgd has a state if it has momentum.
    const int num_tensors = 1 + optim->model->num_parameters * (1 + optim->num_states);
    return source->file->num_tensors == num_tensors ||
           source_reject(source,
                         "has %d tensors, not the %d of %s with momentum %g; use the --momentum it "
                         "was saved with, or --init-from to take only the weights",
                         source->file->num_tensors, num_tensors, optim->name, optim->momentum);
}

bool source_check_position(Source *source, const Dataset *dataset, Position *position)
{
    int64_t step = -1;
    const StoredTensor *stored = safetensors_find(source->file, CHECKPOINT_STEP);
    if (stored != NULL && stored->type == INT64 && stored->ndim == 0)
        memcpy(&step, stored->data, sizeof step);
    if (step < 0 || step > MAX_STEP)
        return source_reject(source, "\"%s\" is not a step from 0 to %lld", CHECKPOINT_STEP,
                             MAX_STEP);
    position->step = (uint64_t)step;

    // The ranks that saved it had padded the epoch to a multiple of their number, or of the shards
    // of --reduce-order fixed.
    uint64_t world_size, epoch, samples;
    if (!get_count(source, "world_size", INT_MAX, &world_size) ||
        !get_count(source, "epoch", INT_MAX - 1, &epoch) ||
        !get_count(source, "position",
                   dataset->size + (world_size > NUM_SHARDS ? world_size : NUM_SHARDS), &samples))
        return false;
    position->epoch = (int)epoch;
    position->samples = samples;

    const char *const key = CHECKPOINT_METADATA_CHECKSUM;
    return check_sum(source, key, safetensors_metadata_checksum(source->file, key),
                     "metadata do not have the checksum they name");
}

bool source_load_weights(Source *source, Model *model)
{
    // If PyTorch's DDP wrapper was saved instead of its model, all names begin with "module.".
    char name[128];
    snprintf(name, sizeof name, "module.%s", model->parameter[0].name);
    const bool is_wrapper = safetensors_find(source->file, name) != NULL;
    if (is_wrapper && log_speaks_for_job())
        log_info("%s: its names begin with \"module.\", those of a wrapper; left out",
                 source->path);
    bool ok = true;
    for (int i = 0; ok && i < model->num_parameters; i++) {
        snprintf(name, sizeof name, "%s%s", is_wrapper ? "module." : "", model->parameter[i].name);
        float *host = mem_calloc(model->parameter[i].numel, sizeof *host);
        const float *values = source_read(source, name, model, i, host);
        ok = values != NULL;
        if (ok)
            model_import(model, i, values, model->params);
        free(host);
    }
    return ok;
}
