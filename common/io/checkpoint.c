/*
 * Writes checkpoints: one safetensors file with everything that training or inference needs.
 *
 * The tensors have PyTorch's names and layout, so PyTorch loads them as they are; the optimizer's
 * states lie beside them. All else is metadata, which is strings. Nothing in the file depends on
 * time, machine or folder: the same run writes the same bytes.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/io/checkpoint_format.h"

void checkpoint_init(Checkpoint *checkpoint, const Args *args, Optimizer *optim, Sampler *sampler,
                     const Dataset *dataset, int world_size)
{
    *checkpoint = (Checkpoint){ .args = args,
                                .optim = optim,
                                .sampler = sampler,
                                .dataset = dataset,
                                .world_size = world_size };
    if (log_speaks_for_job())
        folder_check(args->checkpoint_dir, "--checkpoint-dir");
}

void checkpoint_state_name(char *name, size_t bytes, const Tensor *parameter, const char *state)
{
    snprintf(name, bytes, "optimizer.%s.%s", parameter->name, state);
}

void checkpoint_checksum(const Safetensors *file, char text[9])
{
    snprintf(text, 9, "%08x", (unsigned)safetensors_checksum(file));
}

void checkpoint_metadata_checksum(const Safetensors *file, char text[9])
{
    snprintf(text, 9, "%08x",
             (unsigned)safetensors_metadata_checksum(file, CHECKPOINT_METADATA_CHECKSUM));
}

static void add_text(Safetensors *file, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add_text(Safetensors *file, const char *key, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    safetensors_add_metadata(file, key, text);
}

/* "1,28,28" for a model that begins with a convolution, else the number of features. */
static void describe_input(const Checkpoint *checkpoint, Safetensors *file)
{
    const Tensor *first = &checkpoint->optim->model->parameter[0];
    const size_t features = checkpoint->dataset->features;
    if (first->ndim != 4) {
        add_text(file, "input_shape", "%zu", features);
        return;
    }
    const size_t channels = first->shape[1];
    size_t side = 1;
    while (channels * side * side < features)
        side++;
    add_text(file, "input_shape", "%zu,%zu,%zu", channels, side, side);
}

/* The labels in the order of the model's outputs: "0,1,2,3,4,5,6,7,8,9". */
static void describe_classes(const Dataset *dataset, Safetensors *file)
{
    char text[256] = "";
    size_t length = 0;
    for (int i = 0; i < dataset->num_classes && length < sizeof text; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, i > 0 ? ",%d" : "%d", i);
    safetensors_add_metadata(file, "class_labels", text);
}

/* Of --amp fp16: the scale, the good steps since it changed, and the steps skipped. */
static void describe_loss_scale(const Optimizer *optim, Safetensors *file)
{
    Device *device = optim->model->device;
    if (device->loss_scale == NULL)
        return;
    LossScale state;
    device_copy(device, &state, device->loss_scale, sizeof state, COPY_TO_HOST);
    add_text(file, CHECKPOINT_LOSS_SCALE, "%.9g %d %u", (double)state.scale, (int)state.good_steps,
             (unsigned)state.skipped);
}

void checkpoint_describe(const Checkpoint *checkpoint, Safetensors *file)
{
    const Optimizer *optim = checkpoint->optim;
    const Dataset *dataset = checkpoint->dataset;
    const int batch_size = args_batch_size(checkpoint->args, checkpoint->world_size);
    add_text(file, "format", "pt"); // as in PyTorch's own files
    add_text(file, CHECKPOINT_VERSION_KEY, CHECKPOINT_VERSION);
    add_text(file, "model", "%s", optim->model->name);
    add_text(file, "dataset", "%s", dataset->name);
    add_text(file, "num_samples", "%zu", dataset->size);
    add_text(file, "seed", "%llu", (unsigned long long)checkpoint->args->seed);
    add_text(file, "world_size", "%d", checkpoint->world_size);
    add_text(file, "global_batch_size", "%lld", (long long)checkpoint->world_size * batch_size);
    add_text(file, "optimizer", "%s", optim->name);
    add_text(file, "lr", "%.15g", optim->lr);
    add_text(file, "momentum", "%.15g", optim->momentum);
    add_text(file, "weight_decay", "%.15g", optim->weight_decay);
    add_text(file, "dropout", "%s", checkpoint->args->dropout ? "on" : "off");

    describe_input(checkpoint, file);
    describe_classes(dataset, file);
    add_text(file, "mean", "%.7g", (double)dataset->mean);
    add_text(file, "std", "%.7g", (double)dataset->std);
}

/* Adds parameter i's slice of `array`, copied in PyTorch's layout to the same offset of `copy`. */
static void add_array(Safetensors *file, const char *name, const Model *model, int i,
                      const float *array, float *copy)
{
    const Tensor *parameter = &model->parameter[i];
    model_export(model, i, array, copy + parameter->offset);
    safetensors_add(file, name, FLOAT32, parameter->ndim, parameter->shape,
                    copy + parameter->offset);
}

static void add_tensors(const Optimizer *optim, CheckpointCopy *copy)
{
    const Model *model = optim->model;
    // One piece: up to 32 MiB, malloc reuses what was freed after the copy before. New pages would
    // have to be fetched one by one.
    const size_t bytes = (size_t)(1 + optim->num_states) * model->numel * sizeof(float);
    copy->state = malloc(bytes);
    CHECK(copy->state != NULL, "out of memory: %zu bytes wanted", bytes);

    safetensors_add(copy->file, CHECKPOINT_STEP, INT64, 0, NULL, &copy->step);
    for (int i = 0; i < model->num_parameters; i++)
        add_array(copy->file, model->parameter[i].name, model, i, model->params, copy->state);
    for (int i = 0; i < model->num_parameters; i++)
        for (int s = 0; s < optim->num_states; s++) {
            char name[128];
            checkpoint_state_name(name, sizeof name, &model->parameter[i], optim->state_name[s]);
            add_array(copy->file, name, model, i, optim->state[s],
                      copy->state + (size_t)(1 + s) * model->numel);
        }
}

/* The position; places are counted over all ranks. */
static Position position_of(const Checkpoint *checkpoint)
{
    const Sampler *sampler = checkpoint->sampler;
    return (Position){ sampler->epoch, sampler->position * (size_t)sampler->world_size,
                       checkpoint->optim->model->step };
}

/* The position of the next batch. */
static Position next_of(const Checkpoint *checkpoint)
{
    Position next = position_of(checkpoint);
    if (checkpoint->sampler->position == checkpoint->sampler->size) {
        next.epoch++; // the epoch is complete, though the loader has not returned NULL yet
        next.places = 0;
    }
    return next;
}

bool checkpoint_done(const Checkpoint *checkpoint)
{
    const Position next = next_of(checkpoint);
    return next.epoch >= checkpoint->args->epochs || next.step >= checkpoint->args->max_steps;
}

/* What is behind the line "Epoch N | ...": an epoch that has just been finished, or is under way.
 */
static int latest_epoch(Position next)
{
    return next.epoch - (next.places == 0 && next.epoch > 0);
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

void checkpoint_copy(const Checkpoint *checkpoint, CheckpointKind kind, CheckpointCopy *copy)
{
    // The evaluation of an epoch comes after its last step, and so after that one's snapshot.
    const Position next =
        kind == CHECKPOINT_SNAPSHOT ? position_of(checkpoint) : next_of(checkpoint);
    *copy = (CheckpointCopy){ .file = safetensors_create(), .kind = kind, .step = next.step };
    copy->epoch = kind == CHECKPOINT_SNAPSHOT ? next.epoch : latest_epoch(next);
    path_of(checkpoint, kind, next, copy->path);

    add_tensors(checkpoint->optim, copy);
    checkpoint_describe(checkpoint, copy->file);
    add_text(copy->file, "epoch", "%d", next.epoch);
    add_text(copy->file, "position", "%zu", next.places);
    add_text(copy->file, "step", "%llu", (unsigned long long)next.step);
    describe_loss_scale(checkpoint->optim, copy->file);
}

bool checkpoint_commit(CheckpointCopy *copy, char *error, size_t error_bytes)
{
    char checksum[9];
    checkpoint_checksum(copy->file, checksum);
    safetensors_add_metadata(copy->file, CHECKPOINT_CHECKSUM, checksum);
    checkpoint_metadata_checksum(copy->file, checksum);
    safetensors_add_metadata(copy->file, CHECKPOINT_METADATA_CHECKSUM, checksum);
    const bool ok = safetensors_commit(copy->file, copy->path, error, error_bytes);
    if (ok)
        log_print("Epoch %d | Training %s saved at %s", copy->epoch,
                  copy->kind == CHECKPOINT_SNAPSHOT ? "snapshot" : "checkpoint", copy->path);
    safetensors_free(copy->file);
    free(copy->state);
    return ok;
}

static void save(const Checkpoint *checkpoint, CheckpointKind kind)
{
    CheckpointCopy copy;
    char error[PATH_MAX + 128];
    folder_create(checkpoint->args->checkpoint_dir, "--checkpoint-dir");
    checkpoint_copy(checkpoint, kind, &copy);
    CHECK(checkpoint_commit(&copy, error, sizeof error),
          "%s: make room, or name another folder with --checkpoint-dir", error);
}

bool checkpoint_between_epochs(const Checkpoint *checkpoint)
{
    return next_of(checkpoint).places == 0;
}

void checkpoint_save(const Checkpoint *checkpoint)
{
    if (checkpoint_between_epochs(checkpoint))
        save(checkpoint, CHECKPOINT_EPOCH);
}

void checkpoint_save_snapshot(const Checkpoint *checkpoint)
{
    save(checkpoint, CHECKPOINT_SNAPSHOT);
}

/* Is there a result of this run, and one that is no older than where it stands? */
static bool has_final(const Checkpoint *checkpoint)
{
    char path[PATH_MAX], error[CHECKPOINT_ERROR_BYTES];
    CheckpointClaim claim;
    const Position next = next_of(checkpoint);
    path_of(checkpoint, CHECKPOINT_FINAL, next, path);
    return checkpoint_peek(checkpoint, path, &claim, error, sizeof error) && claim.is_this_run &&
           claim.step >= next.step && checkpoint_verify(checkpoint, path, error, sizeof error);
}

void checkpoint_save_final(const Checkpoint *checkpoint)
{
    if (checkpoint->args->epochs == 0) {
        checkpoint_save(checkpoint);
        return;
    }
    if (!checkpoint->done || !has_final(checkpoint))
        save(checkpoint, CHECKPOINT_FINAL);
}
