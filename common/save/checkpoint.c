/*
 * Checkpoints: one safetensors file with everything that training or inference needs.
 *
 * The tensors have PyTorch's names and layout, so PyTorch loads them as they are. All else is
 * metadata, which is strings. Nothing in the file depends on time, machine or folder: the same run
 * writes the same bytes.
 *
 * To resume, a file must be ours, valid, and of the same model and optimizer: then the run
 * continues as if it had never stopped. Weights may come from any file with the model's tensors,
 * such as PyTorch's.
 */
#include "common/save/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/comfort.h"
#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/save/metrics.h"

void checkpoint_init(Checkpoint *checkpoint, const Args *args, Optimizer *optim, Sampler *sampler,
                     const Dataset *dataset, int world_size)
{
    *checkpoint = (Checkpoint){ args, optim, sampler, dataset, world_size, .done = false };
    if (log_speaks_for_job())
        folder_check(args->checkpoint_dir, "--checkpoint-dir");
    if (comfort.announce != NULL)
        comfort.announce(args, world_size, optim->model->device->name);
}

const char *const checkpoint_settings[NUM_SETTINGS] = { "model",  "dataset",   "num_samples",
                                                        "seed",   "optimizer", "global_batch_size",
                                                        "lr",     "momentum",  "weight_decay",
                                                        "dropout" };
typedef char RunSettings[NUM_SETTINGS][64]; // their values in a run, in this order

static void get_settings(const Checkpoint *checkpoint, RunSettings text)
{
    const Args *args = checkpoint->args;
    const Optimizer *optim = checkpoint->optim;
    const long long batch_size = args_batch_size(args, checkpoint->world_size);
    int i = 0;
    snprintf(text[i++], sizeof *text, "%s", optim->model->name);
    snprintf(text[i++], sizeof *text, "%s", checkpoint->dataset->name);
    snprintf(text[i++], sizeof *text, "%zu", checkpoint->dataset->size);
    snprintf(text[i++], sizeof *text, "%llu", (unsigned long long)args->seed);
    snprintf(text[i++], sizeof *text, "%s", optim->name);
    snprintf(text[i++], sizeof *text, "%lld", checkpoint->world_size * batch_size);
    snprintf(text[i++], sizeof *text, "%.15g", optim->lr);
    snprintf(text[i++], sizeof *text, "%.15g", optim->momentum);
    snprintf(text[i++], sizeof *text, "%.15g", optim->weight_decay);
    snprintf(text[i++], sizeof *text, "%s", args->dropout ? "on" : "off");
}

int checkpoint_difference(const Checkpoint *checkpoint, const Safetensors *file, int i,
                          char text[CHECKPOINT_DIFFERENCE_BYTES])
{
    RunSettings ours;
    get_settings(checkpoint, ours);
    for (; i < NUM_SETTINGS; i++) {
        const char *theirs = safetensors_metadata(file, checkpoint_settings[i]);
        if (theirs != NULL && strcmp(theirs, ours[i]) == 0)
            continue;
        snprintf(text, CHECKPOINT_DIFFERENCE_BYTES, "%s %.80s, this run has %.64s",
                 checkpoint_settings[i], theirs == NULL ? "(none)" : theirs, ours[i]);
        break;
    }
    return i;
}

enum { NAME_BYTES = 128, WEIGHTS = -1 };

/* The name of parameter i among the weights, or in state s of the optimizer:
 * "optimizer.fc1.weight.exp_avg". */
static const char *tensor_name(const Optimizer *optim, int i, int s, char name[NAME_BYTES])
{
    const char *parameter = optim->model->parameter[i].name;
    if (s == WEIGHTS)
        return parameter;
    snprintf(name, NAME_BYTES, "optimizer.%s.%s", parameter, optim->state_name[s]);
    return name;
}

/* Adds parameter i's slice of the weights or of state s, copied in PyTorch's layout. */
static void add_tensor(CheckpointCopy *copy, const Optimizer *optim, int i, int s)
{
    const Model *model = optim->model;
    const Tensor *parameter = &model->parameter[i];
    float *values = copy->state + (size_t)(1 + s) * model->numel + parameter->offset;
    model_export(model, i, s == WEIGHTS ? model->params : optim->state[s], values);
    char name[NAME_BYTES];
    safetensors_add(copy->file, tensor_name(optim, i, s, name), FLOAT32, parameter->ndim,
                    parameter->shape, values);
}

static void add_tensors(CheckpointCopy *copy, const Optimizer *optim)
{
    // One piece: up to 32 MiB, malloc reuses what was freed after the copy before. New pages would
    // have to be fetched one by one.
    const Model *model = optim->model;
    copy->state = mem_alloc((size_t)(1 + optim->num_states) * model->numel, sizeof(float));
    copy->num_weights = model->numel;
    safetensors_add(copy->file, CHECKPOINT_STEP, INT64, 0, NULL, &copy->step);
    for (int i = 0; i < model->num_parameters; i++)
        add_tensor(copy, optim, i, WEIGHTS);
    for (int i = 0; i < model->num_parameters; i++)
        for (int s = 0; s < optim->num_states; s++)
            add_tensor(copy, optim, i, s);
}

/* Where the run stands. */
static Position position_of(const Checkpoint *checkpoint)
{
    const Sampler *sampler = checkpoint->sampler;
    return (Position){ sampler->epoch, sampler->position * (size_t)sampler->world_size,
                       checkpoint->optim->model->step };
}

Position checkpoint_next(const Checkpoint *checkpoint)
{
    const Position here = position_of(checkpoint);
    if (checkpoint->sampler->position < checkpoint->sampler->size)
        return here;
    return (Position){ here.epoch + 1, 0,
                       here.step }; // though the loader has not returned NULL yet
}

static void path_of(const Checkpoint *checkpoint, CheckpointKind kind, Position next,
                    char path[PATH_MAX])
{
    char name[64];
    const Model *model = checkpoint->optim->model;
    if (kind == CHECKPOINT_EPOCH)
        snprintf(name, sizeof name, "epoch_%d", next.epoch);
    else if (kind == CHECKPOINT_SNAPSHOT)
        snprintf(name, sizeof name, "snapshot_e%d_s%llu", next.epoch,
                 (unsigned long long)next.step);
    else
        snprintf(name, sizeof name, "%s_%s", model->name, checkpoint->dataset->name);
    const char *dir = checkpoint->args->checkpoint_dir;
    CHECK(snprintf(path, PATH_MAX, "%s/%s.safetensors", dir, name) < PATH_MAX,
          "the path of --checkpoint-dir is too long: %s", dir);
}

/* What was run, where it stands, and what inference needs. */
static void add_metadata(Safetensors *file, const Checkpoint *checkpoint, Position next)
{
    const Dataset *dataset = checkpoint->dataset;
    const bool digits = dataset->num_classes > 0; // the labels are in the order of the outputs
    Device *device = checkpoint->optim->model->device;
    char scale[LOSS_SCALE_TEXT_BYTES];
    RunSettings text;
    get_settings(checkpoint, text);
    safetensors_add_metadata(file, "format", "pt"); // as in PyTorch's own files
    safetensors_add_metadata(file, CHECKPOINT_VERSION_KEY, CHECKPOINT_VERSION);
    for (int i = 0; i < NUM_SETTINGS; i++)
        safetensors_add_metadata(file, checkpoint_settings[i], "%s", text[i]);
    safetensors_add_metadata(file, "world_size", "%d", checkpoint->world_size);
    safetensors_add_metadata(file, "input_shape", digits ? "1,28,28" : "20");
    safetensors_add_metadata(file, "class_labels", digits ? "0,1,2,3,4,5,6,7,8,9" : "");
    safetensors_add_metadata(file, "mean", "%.7g", (double)dataset->mean);
    safetensors_add_metadata(file, "std", "%.7g", (double)dataset->std);
    safetensors_add_metadata(file, "epoch", "%d", next.epoch);
    safetensors_add_metadata(file, "position", "%zu", next.samples);
    safetensors_add_metadata(file, "step", "%llu", (unsigned long long)next.step);
    if (loss_scale_save(device, scale))
        safetensors_add_metadata(file, CHECKPOINT_LOSS_SCALE, "%s", scale);
}

void checkpoint_copy(const Checkpoint *checkpoint, CheckpointKind kind, CheckpointCopy *copy)
{
    // The evaluation of an epoch comes after its last step, and so after that one's snapshot.
    const bool is_snapshot = kind == CHECKPOINT_SNAPSHOT;
    const Position next = is_snapshot ? position_of(checkpoint) : checkpoint_next(checkpoint);
    *copy = (CheckpointCopy){ .file = safetensors_create(), .kind = kind, .step = next.step };
    copy->epoch = next.epoch - (!is_snapshot && next.samples == 0 && next.epoch > 0);
    path_of(checkpoint, kind, next, copy->path);
    if (metrics_hooks.save != NULL)
        metrics_hooks.save(next.step, copy->path);

    add_tensors(copy, checkpoint->optim);
    add_metadata(copy->file, checkpoint, next);
}

bool checkpoint_commit(CheckpointCopy *copy, char *error, size_t error_bytes)
{
    Safetensors *file = copy->file;
    const bool is_worth_it = weights_are_finite(copy->state, copy->num_weights);
    if (!is_worth_it)
        log_warning("%s is not written: weights are nan or infinite", copy->path);
    safetensors_add_metadata(file, CHECKPOINT_CHECKSUM, "%08x", safetensors_checksum(file));
    safetensors_add_metadata(file, CHECKPOINT_METADATA_CHECKSUM, "%08x",
                             safetensors_metadata_checksum(file, CHECKPOINT_METADATA_CHECKSUM));
    const bool ok = !is_worth_it || safetensors_commit(file, copy->path, error, error_bytes);
    if (ok && is_worth_it)
        log_print("Epoch %d | Training %s saved at %s", copy->epoch,
                  copy->kind == CHECKPOINT_SNAPSHOT ? "snapshot" : "checkpoint", copy->path);
    safetensors_free(file);
    free(copy->state);
    return ok;
}

static void write_now(const Checkpoint *checkpoint, CheckpointKind kind)
{
    CheckpointCopy copy;
    char error[PATH_MAX + 128];
    folder_create(checkpoint->args->checkpoint_dir, "--checkpoint-dir");
    checkpoint_copy(checkpoint, kind, &copy);
    CHECK(checkpoint_commit(&copy, error, sizeof error),
          "%s: make room, or name another folder with --checkpoint-dir", error);
}

void checkpoint_save(const Checkpoint *checkpoint)
{
    if (checkpoint_next(checkpoint).samples == 0)
        write_now(checkpoint, CHECKPOINT_EPOCH);
}

/* A run with --amp fp16 resumes with its loss scale; without one it starts from the initial
 * scale. */
static bool read_loss_scale(Source *source, Device *device, uint64_t step, bool import)
{
    const char *text = safetensors_metadata(source->file, CHECKPOINT_LOSS_SCALE);
    return text == NULL || loss_scale_load(device, text, step, import) ||
           source_reject(source,
                         "\"%s\" in its metadata is \"%.64s\", not a scale, its age, and the "
                         "steps left out",
                         CHECKPOINT_LOSS_SCALE, text);
}

/* Loads model and optimizer from the file; without `import`, only checks that it could. */
static bool read_tensors(Source *source, Optimizer *optim, bool import)
{
    Model *model = optim->model;
    for (int i = 0; i < model->num_parameters; i++)
        for (int s = WEIGHTS; s < optim->num_states; s++) {
            char name[NAME_BYTES];
            const float *values =
                source_read(source, tensor_name(optim, i, s, name), model, i, NULL);
            if (values == NULL)
                return false;
            if (import)
                model_import(model, i, values, s == WEIGHTS ? model->params : optim->state[s]);
        }
    return true;
}

bool checkpoint_verify(const Checkpoint *checkpoint, Source *source, Position *position)
{
    return source_open(source) && source_check_run(source, checkpoint->optim) &&
           read_tensors(source, checkpoint->optim, false) &&
           source_check_position(source, checkpoint->dataset, position) &&
           read_loss_scale(source, checkpoint->optim->model->device, position->step, false);
}

bool checkpoint_resume(Checkpoint *checkpoint, Source *source)
{
    const Args *args = checkpoint->args;
    Position position;
    const bool ok = checkpoint_verify(checkpoint, source, &position);
    if (ok) {
        char text[CHECKPOINT_DIFFERENCE_BYTES]; // all ranks may see it, one reports it
        for (int i = 0;
             (i = checkpoint_difference(checkpoint, source->file, i, text)) < NUM_SETTINGS; i++)
            if (log_speaks_for_job())
                log_warning("%s: was saved with %s", source->path, text);
        read_tensors(source, checkpoint->optim, true);
        read_loss_scale(source, checkpoint->optim->model->device, position.step, true);
        checkpoint->optim->model->step = position.step;
        checkpoint->sampler->epoch = position.epoch;
        sampler_seek(checkpoint->sampler, position.samples);
        checkpoint->done = position.epoch >= args->epochs || position.step >= args->max_steps;
        if (checkpoint->done && log_speaks_for_job())
            log_info("nothing left to do: %s has %d epochs and %llu steps behind it (ask for "
                     "more --epochs, or start afresh with --resume none)",
                     source->path, position.epoch, (unsigned long long)position.step);
    }
    safetensors_free(source->file);
    return ok;
}

int checkpoint_load(Checkpoint *checkpoint)
{
    const Args *args = checkpoint->args;
    char path[PATH_MAX];
    Source source = { .path = args->resume };
    bool ok = true;
    if (args->resume != NULL) {
        ok = checkpoint_resume(checkpoint, &source);
    } else if (args->init_from != NULL) {
        source.path = weights_file(args->init_from, path);
        ok = source_open(&source) && source_load_weights(&source, checkpoint->optim->model);
        safetensors_free(source.file);
    }
    if (!ok) // no failure: the file would be the same after a restart
        usage_error("%s%s", source.error,
                    source.file == NULL ? ": name another file with --resume or --init-from" : "");
    return checkpoint->sampler->epoch;
}

/* Is there a result of this run, and one that is no older than where it stands? */
static bool has_final(const Checkpoint *checkpoint)
{
    char path[PATH_MAX], text[CHECKPOINT_DIFFERENCE_BYTES];
    Source source = { .path = path };
    Position position;
    const Position next = checkpoint_next(checkpoint);
    path_of(checkpoint, CHECKPOINT_FINAL, next, path);
    const bool ok =
        checkpoint_verify(checkpoint, &source, &position) &&
        checkpoint_difference(checkpoint, source.file, 0, text) >= NUM_IDENTITY_SETTINGS &&
        position.step >= next.step;
    safetensors_free(source.file);
    return ok;
}

bool checkpoint_final_kind(const Checkpoint *checkpoint, CheckpointKind *kind)
{
    const bool is_initial_state = checkpoint->args->epochs == 0;
    *kind = is_initial_state ? CHECKPOINT_EPOCH : CHECKPOINT_FINAL;
    if (is_initial_state)
        return checkpoint_next(checkpoint).samples == 0;
    return !checkpoint->done || !has_final(checkpoint);
}

void checkpoint_save_final(const Checkpoint *checkpoint)
{
    CheckpointKind kind;
    if (checkpoint_final_kind(checkpoint, &kind))
        write_now(checkpoint, kind);
}
