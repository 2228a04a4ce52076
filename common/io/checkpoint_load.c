/*
 * Reads checkpoints: all of one to go on with its run (--resume), or only weights (--init-from).
 *
 * To go on, the file must be ours and whole, and of the same model and optimizer: then the run
 * continues as if it had never stopped. Weights may come from any file that has the model's
 * tensors, PyTorch's own among them.
 */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/io/checkpoint_format.h"

#define MAX_STEP (1ll << 53) // every count up to here is exact in a double too

/* A file to load from. */
typedef struct {
    const char *path;
    Safetensors *file;
} Source;

static Source source_open(const char *path)
{
    char error[PATH_MAX + 1024];
    Safetensors *file = safetensors_open(path, error, sizeof error);
    CHECK(file != NULL, "%s: name another file with --resume or --init-from", error);

    // Only of our own files is it known what a checksum covers.
    const char *checksum = safetensors_metadata(file, "checksum");
    char actual[9];
    checkpoint_checksum(file, actual);
    CHECK(safetensors_metadata(file, CHECKPOINT_VERSION_KEY) == NULL || checksum == NULL ||
              strcmp(checksum, actual) == 0,
          "%s: is damaged: its tensors do not have the checksum it names; use another one", path);
    return (Source){ .path = path, .file = file };
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
static void to_float32(DType type, const void *data, size_t numel, float *values)
{
    if (type == FLOAT32) {
        memcpy(values, data, numel * sizeof *values);
        return;
    }
    for (size_t i = 0; i < numel; i++) {
        if (type == FLOAT64) {
            double wide;
            memcpy(&wide, (const char *)data + i * sizeof wide, sizeof wide);
            values[i] = (float)wide;
        } else { // a bfloat16 is the upper half of a float
            uint16_t half;
            memcpy(&half, (const char *)data + i * sizeof half, sizeof half);
            memcpy(&values[i], &(uint32_t){ (uint32_t)half << 16 }, sizeof values[i]);
        }
    }
}

/* What has become nan or infinite stays so, and makes all else so. */
static void check_finite(const Source *source, const char *name, const float *values, size_t numel)
{
    for (size_t i = 0; i < numel; i++)
        CHECK(isfinite(values[i]),
              "%s: tensor \"%s\" has values that are no numbers: its training had failed; use an "
              "earlier checkpoint",
              source->path, name);
}

/* One parameter's slice of an array from the tensor of that name. What a run goes on from must be
 * exact; weights to start from may come in another precision. */
static void load_array(const Source *source, const char *name, bool exact, const Model *model,
                       int i, float *array)
{
    DType type;
    int ndim;
    const size_t *shape;
    const char *path = source->path;
    const Tensor *parameter = &model->parameter[i];
    const void *data = safetensors_find(source->file, name, &type, &ndim, &shape);
    CHECK(data != NULL, "%s: has no tensor \"%s\", which model %s needs", path, name, model->name);
    CHECK(type == FLOAT32 || (!exact && (type == FLOAT64 || type == BFLOAT16)),
          "%s: tensor \"%s\" is %s instead of float32", path, name, dtype_name(type));

    bool same = ndim == parameter->ndim;
    for (int d = 0; same && d < ndim; d++)
        same = shape[d] == parameter->shape[d];
    char theirs[128], ours[128];
    CHECK(same, "%s: tensor \"%s\" has shape %s, model %s needs %s", path, name,
          shape_text(ndim, shape, theirs, sizeof theirs), model->name,
          shape_text(parameter->ndim, parameter->shape, ours, sizeof ours));

    float *host = mem_calloc(parameter->numel, sizeof *host);
    to_float32(type, data, parameter->numel, host);
    if (array == model->params)
        check_finite(source, name, host, parameter->numel);
    model_import(model, i, host, array);
    free(host);
}

static uint64_t load_step(const Source *source)
{
    DType type;
    int ndim;
    const size_t *shape;
    int64_t step = -1;
    const void *data = safetensors_find(source->file, CHECKPOINT_STEP, &type, &ndim, &shape);
    if (data != NULL && type == INT64 && ndim == 0)
        memcpy(&step, data, sizeof step);
    CHECK(step >= 0 && step <= MAX_STEP, "%s: \"%s\" is not a step from 0 to %lld", source->path,
          CHECKPOINT_STEP, MAX_STEP);
    return (uint64_t)step;
}

/* A string of the metadata, fit to stand in a message. */
static const char *require_text(const Source *source, const char *key)
{
    const char *text = safetensors_metadata(source->file, key);
    CHECK(text != NULL, "%s: its metadata has no \"%s\"", source->path, key);
    for (const char *c = text; *c != '\0'; c++)
        CHECK(!iscntrl((unsigned char)*c), "%s: \"%s\" in its metadata is no plain text",
              source->path, key);
    return text;
}

static size_t require_count(const Source *source, const char *key, size_t max)
{
    const char *text = require_text(source, key);
    char *end = NULL;
    errno = 0;
    const unsigned long long count = strtoull(text, &end, 10);
    CHECK(isdigit((unsigned char)text[0]) && *end == '\0' && errno == 0 && count <= max,
          "%s: \"%s\" in its metadata is \"%s\", not a number from 0 to %zu", source->path, key,
          text, max);
    return (size_t)count;
}

static void check_model_and_optimizer(const Source *source, const Optimizer *optim)
{
    const char *path = source->path;
    const Model *model = optim->model;
    CHECK(safetensors_metadata(source->file, CHECKPOINT_VERSION_KEY) != NULL,
          "%s: has weights, but not the state of a run; use --init-from %s to start from them",
          path, path);
    const char *version = require_text(source, CHECKPOINT_VERSION_KEY);
    CHECK(strcmp(version, CHECKPOINT_VERSION) == 0,
          "%s: has format version %s, this program knows " CHECKPOINT_VERSION, path, version);

    const char *name = require_text(source, "model");
    CHECK(strcmp(name, model->name) == 0, "%s: is of model %s; use --model %s, not %s", path, name,
          name, model->name);
    name = require_text(source, "optimizer");
    CHECK(
        strcmp(name, optim->name) == 0,
        "%s: was saved with optimizer %s; use --optimizer %s, not %s, or --init-from to take only "
        "the weights",
        path, name, name, optim->name);

    // sgd has a state if it has momentum.
    const int num_tensors = 1 + model->num_parameters * (1 + optim->num_states);
    CHECK(safetensors_num_tensors(source->file) == num_tensors,
          "%s: has %d tensors, not the %d of %s with momentum %g; use the --momentum it was saved "
          "with, or --init-from to take only the weights",
          path, safetensors_num_tensors(source->file), num_tensors, optim->name, optim->momentum);
}

/* What may differ, but hardly on purpose. All ranks see it, one says it. */
static void warn_of_changes(const Source *source, const Checkpoint *checkpoint)
{
    static const char *const keys[] = { "dataset",           "num_samples", "seed",
                                        "global_batch_size", "lr",          "momentum",
                                        "weight_decay",      "dropout" };
    Safetensors *own = safetensors_create();
    checkpoint_describe(checkpoint, own);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *theirs = require_text(source, keys[i]);
        const char *ours = safetensors_metadata(own, keys[i]);
        if (strcmp(theirs, ours) != 0 && log_speaks_for_job())
            log_warning("%s: was saved with %s %s, this run has %s", source->path, keys[i], theirs,
                        ours);
    }
    safetensors_free(own);
}

static int resume(Checkpoint *checkpoint, const char *path)
{
    Optimizer *optim = checkpoint->optim;
    Model *model = optim->model;
    const Source opened = source_open(path), *source = &opened;
    check_model_and_optimizer(source, optim);
    warn_of_changes(source, checkpoint);

    for (int i = 0; i < model->num_parameters; i++) {
        const Tensor *parameter = &model->parameter[i];
        load_array(source, parameter->name, true, model, i, model->params);
        for (int s = 0; s < optim->num_states; s++) {
            char name[128];
            checkpoint_state_name(name, sizeof name, parameter, optim->state_name[s]);
            load_array(source, name, true, model, i, optim->state[s]);
        }
    }
    model->step = load_step(source);

    // The ranks that saved it had padded the epoch to a multiple of their number.
    const size_t padding = require_count(source, "world_size", INT_MAX);
    Sampler *sampler = checkpoint->sampler;
    sampler->epoch = (int)require_count(source, "epoch", INT_MAX - 1);
    sampler_seek(sampler, require_count(source, "position", checkpoint->dataset->size + padding));
    safetensors_free(source->file);

    checkpoint->done =
        sampler->epoch >= checkpoint->args->epochs || model->step >= checkpoint->args->max_steps;
    if (checkpoint->done && log_speaks_for_job())
        log_info("nothing left to do: %s has %d epochs and %llu steps behind it", path,
                 sampler->epoch, (unsigned long long)model->step);
    return sampler->epoch;
}

/* "module." where names begin so: then PyTorch's DDP was saved, and not the model in it. */
static const char *find_prefix(const Source *source, const Model *model)
{
    DType type;
    int ndim;
    const size_t *shape;
    char wrapped[128];
    snprintf(wrapped, sizeof wrapped, "module.%s", model->parameter[0].name);
    if (safetensors_find(source->file, wrapped, &type, &ndim, &shape) == NULL)
        return "";
    if (log_speaks_for_job())
        log_info("%s: its names begin with \"module.\", those of a wrapper; left out",
                 source->path);
    return "module.";
}

static void init_from(Model *model, const char *path)
{
    const Source source = source_open(path);
    const char *prefix = find_prefix(&source, model);
    for (int i = 0; i < model->num_parameters; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", prefix, model->parameter[i].name);
        load_array(&source, name, false, model, i, model->params);
    }
    safetensors_free(source.file);
}

int checkpoint_load(Checkpoint *checkpoint)
{
    const Args *args = checkpoint->args;
    if (args->resume != NULL)
        return resume(checkpoint, args->resume);
    if (args->init_from != NULL)
        init_from(checkpoint->optim->model, args->init_from);
    return 0;
}
