/*
 * Reads checkpoints: everything, to resume (--resume), or only weights (--init-from).
 *
 * To resume, the file must be ours, valid, and of the same model and optimizer: then the run
 * continues as if it had never stopped. Weights may come from any file with the model's tensors,
 * such as PyTorch's.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/save/checkpoint_format.h"

/* Settings that identify a run: with other values it cannot be resumed. The batch comes last. */
static const char *const identity[] = { "model", "dataset",   "num_samples",
                                        "seed",  "optimizer", "global_batch_size" };

/* Settings that may differ, but hardly on purpose. */
const char *const checkpoint_settings[] = { "dataset",           "num_samples", "seed",
                                            "global_batch_size", "lr",          "momentum",
                                            "weight_decay",      "dropout",     NULL };

/* If they differ, writes "KEY THEIRS, this run has OURS" to text. */
static bool differs(const Safetensors *theirs, const Safetensors *ours, const char *key, char *text,
                    size_t bytes)
{
    const char *value = safetensors_metadata(theirs, key), *own = safetensors_metadata(ours, key);
    if (value != NULL && strcmp(value, own) == 0)
        return false;
    snprintf(text, bytes, "%s %.80s, this run has %s", key, value == NULL ? "(none)" : value, own);
    return true;
}

/* All ranks may see it, one reports it. */
static void warn_of_changes(const Source *source, const Checkpoint *checkpoint)
{
    char text[CHECKPOINT_DIFFERENCE_BYTES];
    Safetensors *own = safetensors_create();
    checkpoint_describe(checkpoint, own);
    for (const char *const *key = checkpoint_settings; *key != NULL; key++)
        if (differs(source->file, own, *key, text, sizeof text) && log_speaks_for_job())
            log_warning("%s: was saved with %s", source->path, text);
    safetensors_free(own);
}

/* A run with --amp fp16 resumes with its loss scale; without one it starts from the initial
 * scale. */
static bool read_loss_scale(Source *source, Device *device, uint64_t step, bool import)
{
    const char *text = safetensors_metadata(source->file, CHECKPOINT_LOSS_SCALE);
    if (device->loss_scale == NULL || text == NULL)
        return true;
    LossScale state = { 0 };
    int good_steps = -1, end = 0;
    unsigned skipped = 0;
    const bool valid = sscanf(text, "%f %d %u%n", &state.scale, &good_steps, &skipped, &end) == 3 &&
                       text[end] == '\0' && isfinite(state.scale) && state.scale > 0 &&
                       good_steps >= 0 && skipped <= step;
    if (!valid)
        return source_reject(source,
                             "\"%s\" in its metadata is \"%.64s\", not a scale, its age, and the "
                             "steps left out",
                             CHECKPOINT_LOSS_SCALE, text);
    state.good_steps = good_steps;
    state.skipped = skipped;
    if (import)
        device_copy(device, device->loss_scale, &state, sizeof state, COPY_TO_DEVICE);
    return true;
}

/* Loads model and optimizer from the file; without `import`, only checks that it could. */
static bool read_arrays(Source *source, Optimizer *optim, bool import)
{
    Model *model = optim->model;
    for (int i = 0; i < model->num_parameters; i++)
        for (int s = -1; s < optim->num_states; s++) { // -1: the weights
            char name[128];
            const Tensor *parameter = &model->parameter[i];
            if (s >= 0)
                checkpoint_state_name(name, sizeof name, parameter, optim->state_name[s]);
            const float *values =
                source_read(source, s < 0 ? parameter->name : name, model, i, NULL);
            if (values == NULL)
                return false;
            if (import)
                model_import(model, i, values, s < 0 ? model->params : optim->state[s]);
        }
    return true;
}

static bool verify(Source *source, const Checkpoint *checkpoint, Position *position)
{
    return source_open(source) && source_check_run(source, checkpoint->optim) &&
           read_arrays(source, checkpoint->optim, false) &&
           source_check_position(source, checkpoint->dataset, position) &&
           read_loss_scale(source, checkpoint->optim->model->device, position->step, false);
}

bool checkpoint_verify(const Checkpoint *checkpoint, const char *path, char *error,
                       size_t error_bytes)
{
    Source source = { .path = path, .remedy = "", .error = error, .error_bytes = error_bytes };
    Position position;
    const bool ok = verify(&source, checkpoint, &position);
    source_close(&source);
    return ok;
}

static bool resume(Source *source, Checkpoint *checkpoint)
{
    const Args *args = checkpoint->args;
    Position position;
    const bool ok = verify(source, checkpoint, &position);
    if (ok) {
        warn_of_changes(source, checkpoint);
        read_arrays(source, checkpoint->optim, true);
        read_loss_scale(source, checkpoint->optim->model->device, position.step, true);
        checkpoint->optim->model->step = position.step;
        checkpoint->sampler->epoch = position.epoch;
        sampler_seek(checkpoint->sampler, position.places);
        checkpoint->done = position.epoch >= args->epochs || position.step >= args->max_steps;
        if (checkpoint->done && log_speaks_for_job())
            log_info("nothing left to do: %s has %d epochs and %llu steps behind it (more --epochs "
                     "go on, --resume none begins anew)",
                     source->path, position.epoch, (unsigned long long)position.step);
    }
    source_close(source);
    return ok;
}

bool checkpoint_resume(Checkpoint *checkpoint, const char *path, char *error, size_t error_bytes)
{
    Source source = { .path = path, .remedy = "", .error = error, .error_bytes = error_bytes };
    return resume(&source, checkpoint);
}

bool checkpoint_peek(const Checkpoint *checkpoint, const char *path, CheckpointClaim *claim,
                     char *error, size_t error_bytes)
{
    Safetensors *file = safetensors_peek(path, error, error_bytes);
    if (file == NULL)
        return false;
    const char *step = safetensors_metadata(file, "step");
    const char *epoch = safetensors_metadata(file, "epoch");
    *claim = (CheckpointClaim){ .step = step != NULL ? strtoull(step, NULL, 10) : 0,
                                .epoch = epoch != NULL ? atoi(epoch) : 0 };

    Safetensors *own = safetensors_create();
    checkpoint_describe(checkpoint, own);
    claim->is_this_run = true;
    for (size_t i = 0; claim->is_this_run && i < sizeof identity / sizeof *identity; i++) {
        claim->is_this_run =
            !differs(file, own, identity[i], claim->difference, sizeof claim->difference);
        claim->is_other_batch = !claim->is_this_run && i == sizeof identity / sizeof *identity - 1;
    }
    safetensors_free(own);
    safetensors_free(file);
    return true;
}

/* "module." if names begin with it: then PyTorch's DDP wrapper was saved instead of its model. */
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

bool source_load_weights(Source *source, Model *model)
{
    bool ok = true;
    const char *prefix = find_prefix(source, model);
    for (int i = 0; ok && i < model->num_parameters; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", prefix, model->parameter[i].name);
        float *host = mem_calloc(model->parameter[i].numel, sizeof *host);
        const float *values = source_read(source, name, model, i, host);
        ok = values != NULL;
        if (ok)
            model_import(model, i, values, model->params);
        free(host);
    }
    return ok;
}

static bool init_from(Source *source, Model *model)
{
    const bool ok = source_open(source) && source_load_weights(source, model);
    source_close(source);
    return ok;
}

int checkpoint_load(Checkpoint *checkpoint)
{
    const Args *args = checkpoint->args;
    char error[CHECKPOINT_ERROR_BYTES] = "";
    Source source = { .path = args->resume != NULL ? args->resume : args->init_from,
                      .remedy = ": name another file with --resume or --init-from",
                      .error = error,
                      .error_bytes = sizeof error };
    bool ok = true;
    if (args->resume != NULL)
        ok = resume(&source, checkpoint);
    else if (args->init_from != NULL)
        ok = init_from(&source, checkpoint->optim->model);
    if (!ok)
        usage_error("%s", error); // no failure: the file would be the same after a restart
    return checkpoint->sampler->epoch;
}
