/*
 * Checks of a checkpoint before any of it is used: it must be complete, ours, of the same model and
 * optimizer, and every number in range. A check returns one line that says what is wrong: it may
 * end a program that was told to use this file, but not one that has others to try.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/save/checkpoint_format.h"

#define MAX_STEP (1ll << 53) // every count up to here is exact in a double too

bool source_reject(Source *source, const char *format, ...)
{
    const int length = snprintf(source->error, source->error_bytes, "%s: ", source->path);
    va_list args;
    va_start(args, format);
    if (length > 0 && (size_t)length < source->error_bytes)
        vsnprintf(source->error + length, source->error_bytes - (size_t)length, format, args);
    va_end(args);
    return false;
}

/* Only in our own files is it known what a checksum covers. */
static bool same_checksum(const Source *source, const char *key, const char *actual)
{
    const char *named = safetensors_metadata(source->file, key);
    const bool ours = safetensors_metadata(source->file, CHECKPOINT_VERSION_KEY) != NULL ||
                      safetensors_metadata(source->file, EXPORT_VERSION_KEY) != NULL;
    return !ours || named == NULL || strcmp(named, actual) == 0;
}

bool source_open(Source *source)
{
    source->file = safetensors_open(source->path, source->error, source->error_bytes);
    if (source->file == NULL) {
        const size_t length = strlen(source->error);
        snprintf(source->error + length, source->error_bytes - length, "%s", source->remedy);
        return false;
    }
    char actual[9];
    checkpoint_checksum(source->file, actual);
    if (!same_checksum(source, CHECKPOINT_CHECKSUM, actual))
        return source_reject(source, "is damaged: its tensors do not have the checksum it names; "
                                     "use another one");
    return true;
}

void source_close(Source *source)
{
    if (source->file != NULL)
        safetensors_free(source->file);
}

static const char *shape_text(int ndim, const size_t *shape, char *text, size_t bytes)
{
    size_t length = (size_t)snprintf(text, bytes, "[");
    for (int i = 0; i < ndim && length < bytes; i++)
        length +=
            (size_t)snprintf(text + length, bytes - length, i > 0 ? ", %zu" : "%zu", shape[i]);
    if (length < bytes)
        snprintf(text + length, bytes - length, "]");
    return text;
}

/* Weights saved in another precision become float32. */
static const float *to_float32(DType type, const void *data, size_t numel, float *values)
{
    const double *wide = data;
    const uint16_t *half = data;
    for (size_t i = 0; i < numel; i++) {
        if (type == FLOAT64)
            values[i] = (float)wide[i];
        else // a bfloat16 is the upper half of a float
            memcpy(&values[i], &(uint32_t){ (uint32_t)half[i] << 16 }, sizeof values[i]);
    }
    return values;
}

/* Without an early exit, so that the compiler can vectorize it. */
static bool all_finite(const float *values, size_t numel)
{
    int count = 0;
    for (size_t i = 0; i < numel; i++)
        count += isfinite(values[i]) == 0;
    return count == 0;
}

static bool same_shape(const Tensor *parameter, int ndim, const size_t *shape)
{
    return ndim == parameter->ndim &&
           memcmp(shape, parameter->shape, (size_t)ndim * sizeof *shape) == 0;
}

const float *source_read(Source *source, const char *name, const Model *model, int i, float *host)
{
    DType type;
    int ndim;
    const size_t *shape;
    char theirs[128], ours[128];
    const Tensor *parameter = &model->parameter[i];
    const void *data = safetensors_find(source->file, name, &type, &ndim, &shape);
    if (data == NULL)
        source_reject(source, "has no tensor \"%s\", which model %s needs", name, model->name);
    else if (type != FLOAT32 && (host == NULL || (type != FLOAT64 && type != BFLOAT16)))
        source_reject(source, "tensor \"%s\" is %s instead of float32", name, dtype_name(type));
    else if (!same_shape(parameter, ndim, shape))
        source_reject(source, "tensor \"%s\" has shape %s, model %s needs %s", name,
                      shape_text(ndim, shape, theirs, sizeof theirs), model->name,
                      shape_text(parameter->ndim, parameter->shape, ours, sizeof ours));
    else {
        const float *values =
            type == FLOAT32 ? data : to_float32(type, data, parameter->numel, host);
        // A nan or infinite weight stays so and spreads; an optimizer's state may recover.
        if (strcmp(name, parameter->name) != 0 || all_finite(values, parameter->numel))
            return values;
        source_reject(source,
                      "tensor \"%s\" has values that are no numbers: its training had "
                      "failed; use an earlier checkpoint",
                      name);
    }
    return NULL;
}

/* A string of the metadata, made safe for a message. */
static bool get_text(Source *source, const char *key, const char **text)
{
    *text = safetensors_metadata(source->file, key);
    if (*text == NULL)
        return source_reject(source, "its metadata has no \"%s\"", key);
    for (const char *c = *text; *c != '\0'; c++)
        if (iscntrl((unsigned char)*c))
            return source_reject(source, "\"%s\" in its metadata is no plain text", key);
    return true;
}

static bool get_count(Source *source, const char *key, size_t max, size_t *count)
{
    const char *text;
    if (!get_text(source, key, &text))
        return false;
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value > max)
        return source_reject(source, "\"%s\" in its metadata is \"%s\", not a number from 0 to %zu",
                             key, text, max);
    *count = (size_t)value;
    return true;
}

static bool get_step(Source *source, uint64_t *step)
{
    DType type;
    int ndim;
    const size_t *shape;
    int64_t value = -1;
    const void *data = safetensors_find(source->file, CHECKPOINT_STEP, &type, &ndim, &shape);
    if (data != NULL && type == INT64 && ndim == 0)
        memcpy(&value, data, sizeof value);
    if (value < 0 || value > MAX_STEP)
        return source_reject(source, "\"%s\" is not a step from 0 to %lld", CHECKPOINT_STEP,
                             MAX_STEP);
    *step = (uint64_t)value;
    return true;
}

bool source_check_run(Source *source, const Optimizer *optim)
{
    const Model *model = optim->model;
    const char *version, *name;
    if (safetensors_metadata(source->file, CHECKPOINT_VERSION_KEY) == NULL)
        return source_reject(source,
                             "has weights, but not the state of a run; use --init-from %s to "
                             "start from them",
                             source->path);
    if (!get_text(source, CHECKPOINT_VERSION_KEY, &version))
        return false;
    if (strcmp(version, CHECKPOINT_VERSION) != 0)
        return source_reject(
            source, "has format version %s, this program knows " CHECKPOINT_VERSION, version);

    if (!get_text(source, "model", &name))
        return false;
    if (strcmp(name, model->name) != 0)
        return source_reject(source, "is of model %s; use --model %s, not %s", name, name,
                             model->name);
    if (!get_text(source, "optimizer", &name))
        return false;
    if (strcmp(name, optim->name) != 0)
        return source_reject(source,
                             "was saved with optimizer %s; use --optimizer %s, not %s, or "
                             "--init-from to take only the weights",
                             name, name, optim->name);

    // sgd has a state if it has momentum.
    const int num_tensors = 1 + model->num_parameters * (1 + optim->num_states);
    if (safetensors_num_tensors(source->file) != num_tensors)
        return source_reject(source,
                             "has %d tensors, not the %d of %s with momentum %g; use the "
                             "--momentum it was saved with, or --init-from to take only the "
                             "weights",
                             safetensors_num_tensors(source->file), num_tensors, optim->name,
                             optim->momentum);
    for (const char *const *key = checkpoint_settings; *key != NULL; key++)
        if (!get_text(source, *key, &name))
            return false;
    return true;
}

bool source_check_position(Source *source, const Dataset *dataset, Position *position)
{
    // The ranks that saved it had padded the epoch to a multiple of their number, or of the shards
    // of --reduce-order fixed.
    size_t world_size, epoch;
    if (!get_step(source, &position->step) ||
        !get_count(source, "world_size", INT_MAX, &world_size) ||
        !get_count(source, "epoch", INT_MAX - 1, &epoch) ||
        !get_count(source, "position",
                   dataset->size + (world_size > NUM_SHARDS ? world_size : NUM_SHARDS),
                   &position->places))
        return false;
    position->epoch = (int)epoch;

    char actual[9];
    checkpoint_metadata_checksum(source->file, actual);
    return same_checksum(source, CHECKPOINT_METADATA_CHECKSUM, actual) ||
           source_reject(source, "is damaged: its metadata do not have the checksum they name; "
                                 "use another one");
}
