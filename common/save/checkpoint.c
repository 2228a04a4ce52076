/*
 * Writes checkpoints: one safetensors file with everything that training or inference needs.
 *
 * The tensors have PyTorch's names and layout, so PyTorch loads them as they are; the optimizer's
 * states lie beside them. All else is metadata, which is strings. Nothing in the file depends on
 * time, machine or folder: the same run writes the same bytes.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/save/checkpoint_format.h"

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

/* Of --amp fp16: the scale, the good steps since it changed, and the steps skipped. */
static void describe_loss_scale(const Optimizer *optim, Safetensors *file)
{
    Device *device = optim->model->device;
    if (device->loss_scale == NULL)
        return;
    LossScale state;
    device_copy(device, &state, device->loss_scale, sizeof state, COPY_TO_HOST);
    safetensors_add_metadata(file, CHECKPOINT_LOSS_SCALE, "%.9g %d %u", (double)state.scale,
                             (int)state.good_steps, (unsigned)state.skipped);
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
    copy->state = mem_alloc((size_t)(1 + optim->num_states) * model->numel, sizeof(float));

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

/* What is behind the line "Epoch N | ...": an epoch that was just finished, or is under way. */
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
    safetensors_add_metadata(copy->file, "epoch", "%d", next.epoch);
    safetensors_add_metadata(copy->file, "position", "%zu", next.places);
    safetensors_add_metadata(copy->file, "step", "%llu", (unsigned long long)next.step);
    describe_loss_scale(checkpoint->optim, copy->file);
}

bool checkpoint_commit(CheckpointCopy *copy, char *error, size_t error_bytes)
{
    char checksum[9];
    checkpoint_checksum(copy->file, checksum);
    safetensors_add_metadata(copy->file, CHECKPOINT_CHECKSUM, "%s", checksum);
    checkpoint_metadata_checksum(copy->file, checksum);
    safetensors_add_metadata(copy->file, CHECKPOINT_METADATA_CHECKSUM, "%s", checksum);
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
