/*
 * Checkpoints with buffers. A file has the entries of a state_dict (parameters, running averages,
 * and the number of batches of each batch norm), the optimizer's momentum, and the run's position
 * as metadata. common/save reads and checks it.
 */
#include "beyond/batch_norm/conv_net_checkpoint.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/save/checkpoint.h"

#define MODEL_NAME "batch_norm"

enum { NAME_BYTES = 64 };

/* A copy of the net's arrays in host memory. */
typedef struct {
    float *params, *momentum_buffer, *buffers;
    int64_t num_batches_tracked[NET_BLOCKS];
} State;

static void state_copy(State *state, ConvNet *net, CopyKind kind)
{
    const struct {
        void *host, *device;
        size_t bytes;
    } arrays[] = {
        { state->params, net->params, net->numel * sizeof(float) },
        { state->momentum_buffer, net->momentum_buffer, net->numel * sizeof(float) },
        { state->buffers, net->buffers, net->buffers_numel * sizeof(float) },
        { state->num_batches_tracked, net->num_batches_tracked, sizeof state->num_batches_tracked },
    };
    const bool to_host = kind == COPY_TO_HOST;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        device_copy(net->device, to_host ? arrays[i].host : arrays[i].device,
                    to_host ? arrays[i].device : arrays[i].host, arrays[i].bytes, kind);
}

static void state_init(State *state, ConvNet *net)
{
    state->params = mem_alloc(net->numel, sizeof(float));
    state->momentum_buffer = mem_alloc(net->numel, sizeof(float));
    state->buffers = mem_alloc(net->buffers_numel, sizeof(float));
    state_copy(state, net, COPY_TO_HOST);
}

static void state_free(State *state)
{
    free(state->buffers);
    free(state->momentum_buffer);
    free(state->params);
}

static const char *momentum_name(const Tensor *parameter, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "optimizer.%s.momentum_buffer", parameter->name);
    return name;
}

static const char *tracked_name(int b, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "bn%d.num_batches_tracked", b + 1);
    return name;
}

static void describe_run(const ConvNetCheckpoint *checkpoint, Safetensors *file)
{
    const Args *args = checkpoint->args;
    const int batch_size = args_batch_size(args, checkpoint->world_size);
    safetensors_add_metadata(file, "format", "pt"); // as in PyTorch's own files
    safetensors_add_metadata(file, CHECKPOINT_VERSION_KEY, CHECKPOINT_VERSION);
    safetensors_add_metadata(file, "model", MODEL_NAME);
    safetensors_add_metadata(file, "dataset", "%s", checkpoint->dataset->name);
    safetensors_add_metadata(file, "num_samples", "%zu", checkpoint->dataset->size);
    safetensors_add_metadata(file, "seed", "%llu", (unsigned long long)args->seed);
    safetensors_add_metadata(file, "world_size", "%d", checkpoint->world_size);
    safetensors_add_metadata(file, "global_batch_size", "%lld",
                             (long long)checkpoint->world_size * batch_size);
    safetensors_add_metadata(file, "optimizer", "sgd");
    safetensors_add_metadata(file, "lr", "%.15g", args->lr);
    safetensors_add_metadata(file, "momentum", "%.15g", args->momentum);
    safetensors_add_metadata(file, "weight_decay", "%.15g", args->weight_decay);
    safetensors_add_metadata(file, "dropout", "off");
}

/* Returns where the next batch begins, in samples over all ranks. */
static Position next_position(const ConvNetCheckpoint *checkpoint)
{
    const Sampler *sampler = checkpoint->sampler;
    const bool complete = sampler->position == sampler->size;
    return (Position){ sampler->epoch + complete,
                       complete ? 0 : sampler->position * (size_t)sampler->world_size,
                       checkpoint->net->step };
}

static void add_tensors(const ConvNet *net, const State *state, bool momentum, Safetensors *file)
{
    char name[NAME_BYTES];
    for (int b = 0; b < NET_BLOCKS; b++)
        safetensors_add(file, tracked_name(b, name), INT64, 0, NULL,
                        &state->num_batches_tracked[b]);
    safetensors_add(file, CHECKPOINT_STEP, INT64, 0, NULL, &net->step);
    for (int i = 0; i < NET_PARAMETERS; i++) {
        const Tensor *p = &net->parameter[i];
        safetensors_add(file, p->name, FLOAT32, p->ndim, p->shape, state->params + p->offset);
        if (momentum)
            safetensors_add(file, momentum_name(p, name), FLOAT32, p->ndim, p->shape,
                            state->momentum_buffer + p->offset);
    }
    for (int i = 0; i < NET_BUFFERS; i++) {
        const Tensor *p = &net->buffer[i];
        safetensors_add(file, p->name, FLOAT32, p->ndim, p->shape, state->buffers + p->offset);
    }
}

void conv_net_save(const ConvNetCheckpoint *checkpoint, bool final)
{
    const Position next = next_position(checkpoint);
    const char *dir = checkpoint->args->checkpoint_dir;
    char path[PATH_MAX], name[64];
    if (!final && next.samples > 0)
        return;
    if (final)
        snprintf(name, sizeof name, MODEL_NAME "_%s", checkpoint->dataset->name);
    else
        snprintf(name, sizeof name, "epoch_%d", next.epoch);
    CHECK(snprintf(path, sizeof path, "%s/%s.safetensors", dir, name) < PATH_MAX,
          "the path of --checkpoint-dir is too long: %s", dir);
    folder_create(dir, "--checkpoint-dir");

    State state; // the file borrows it
    state_init(&state, checkpoint->net);
    Safetensors file;
    safetensors_create(&file, path);
    add_tensors(checkpoint->net, &state, checkpoint->args->momentum != 0, &file);
    describe_run(checkpoint, &file);
    safetensors_add_metadata(&file, "epoch", "%d", next.epoch);
    safetensors_add_metadata(&file, "position", "%zu", next.samples);
    checkpoint_add_checksums(&file);
    CHECK(safetensors_commit(&file), "%s: make room, or name another folder with --checkpoint-dir",
          file.error);
    safetensors_free(&file);
    state_free(&state);
    log_print("Epoch %d | Training checkpoint saved at %s",
              next.epoch - (next.samples == 0 && next.epoch > 0), path);
}

/* Returns whether the file is ours and of this network. Warns if its settings differ. */
static bool check_run(const ConvNetCheckpoint *checkpoint, Safetensors *file)
{
    const char *version = safetensors_metadata(file, CHECKPOINT_VERSION_KEY);
    const char *model = safetensors_metadata(file, "model");
    if (version == NULL || strcmp(version, CHECKPOINT_VERSION) != 0)
        return file_reject(file, "is no checkpoint of version " CHECKPOINT_VERSION);
    if (model == NULL || strcmp(model, MODEL_NAME) != 0)
        return file_reject(file, "is of model %s, this program trains " MODEL_NAME,
                           model != NULL ? model : "(none)");
    static const char *const settings[] = { "dataset",   "num_samples",       "seed",
                                            "optimizer", "global_batch_size", "lr",
                                            "momentum",  "weight_decay",      "dropout" };
    Safetensors own;
    safetensors_create(&own, "");
    describe_run(checkpoint, &own);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *key = settings[i], *theirs = safetensors_metadata(file, key);
        const char *ours = safetensors_metadata(&own, key);
        if (theirs != NULL && strcmp(theirs, ours) != 0 && log_prints_for_job())
            log_warning("%s: was saved with %s %.80s, this run has %s", file->path, key, theirs,
                        ours);
    }
    safetensors_free(&own);
    return true;
}

/* Reads tensor i of the list into its slice of the array. */
static bool read_slice(Safetensors *file, const char *name, const Model *list, int i, float *array)
{
    const Tensor *tensor = &list->parameter[i];
    const float *values = checkpoint_tensor(file, name, list, i);
    if (values != NULL)
        memcpy(array + tensor->offset, values, tensor->numel * sizeof *values);
    return values != NULL;
}

static bool read_tensors(Safetensors *file, const ConvNet *net, State *state, bool momentum)
{
    Model list = { .name = MODEL_NAME }; // names and shapes, for checkpoint_tensor
    memcpy(list.parameter, net->parameter, sizeof net->parameter);
    memcpy(list.parameter + NET_PARAMETERS, net->buffer, sizeof net->buffer);
    char name[NAME_BYTES];
    for (int i = 0; i < NET_PARAMETERS + NET_BUFFERS; i++) {
        const bool is_buffer = i >= NET_PARAMETERS;
        const Tensor *tensor = &list.parameter[i];
        if (!read_slice(file, tensor->name, &list, i, is_buffer ? state->buffers : state->params))
            return false;
        if (momentum && !is_buffer &&
            !read_slice(file, momentum_name(tensor, name), &list, i, state->momentum_buffer))
            return false;
    }
    for (int b = 0; b < NET_BLOCKS; b++) {
        const StoredTensor *stored = safetensors_find(file, tracked_name(b, name));
        if (stored == NULL || stored->type != INT64 || stored->ndim != 0)
            return file_reject(file, "has no count \"%s\"", name);
        memcpy(&state->num_batches_tracked[b], stored->data, sizeof(int64_t));
    }
    return true;
}

int conv_net_load(const ConvNetCheckpoint *checkpoint)
{
    const char *resume = checkpoint->args->resume;
    Safetensors file;
    Position position;
    State state;
    ConvNet *net = checkpoint->net;
    folder_check(checkpoint->args->checkpoint_dir, "--checkpoint-dir");
    if (resume == NULL)
        return 0;
    state_init(&state, net);
    if (!checkpoint_open(&file, resume) || !check_run(checkpoint, &file) ||
        !checkpoint_position(&file, &position) ||
        !read_tensors(&file, net, &state, checkpoint->args->momentum != 0))
        usage_error("%s", file.error);
    state_copy(&state, net, COPY_TO_DEVICE);
    state_free(&state);
    net->step = position.step;
    checkpoint->sampler->epoch = position.epoch;
    sampler_seek(checkpoint->sampler, position.samples);
    safetensors_free(&file);
    return position.epoch;
}
