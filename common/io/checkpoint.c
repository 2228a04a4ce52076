/*
 * Writes checkpoints: one safetensors file with everything that training, or inference, goes on
 * from.
 *
 * The tensors have PyTorch's names and layout, so PyTorch loads them as they are; the optimizer's
 * states lie beside them. All else is metadata, which is strings. Nothing in the file depends on
 * the time, the machine or the folder: the same run writes the same bytes.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/memory.h"
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

void checkpoint_describe(const Checkpoint *checkpoint, Safetensors *file)
{
    const Optimizer *optim = checkpoint->optim;
    const Dataset *dataset = checkpoint->dataset;
    const int batch_size = args_batch_size(checkpoint->args, checkpoint->world_size);
    add_text(file, "format", "pt"); // as PyTorch's own files say
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

static void add_array(Safetensors *file, const char *name, const Model *model, int i,
                      const float *array)
{
    const Tensor *parameter = &model->parameter[i];
    float *host = mem_calloc(parameter->numel, sizeof *host);
    model_export(model, i, array, host);
    safetensors_add(file, name, FLOAT32, parameter->ndim, parameter->shape, host);
    free(host);
}

static void add_tensors(const Optimizer *optim, Safetensors *file)
{
    const Model *model = optim->model;
    const int64_t step = (int64_t)model->step;
    safetensors_add(file, CHECKPOINT_STEP, INT64, 0, NULL, &step);
    for (int i = 0; i < model->num_parameters; i++)
        add_array(file, model->parameter[i].name, model, i, model->params);
    for (int i = 0; i < model->num_parameters; i++)
        for (int s = 0; s < optim->num_states; s++) {
            char name[128];
            checkpoint_state_name(name, sizeof name, &model->parameter[i], optim->state_name[s]);
            add_array(file, name, model, i, optim->state[s]);
        }
}

/* What comes next: an epoch, and the places of it that are done, over all ranks. */
typedef struct {
    int epoch;
    size_t position;
} Next;

static Next next_of(const Sampler *sampler)
{
    if (sampler->position == sampler->size) // dealt out, though nobody has asked for more
        return (Next){ sampler->epoch + 1, 0 };
    return (Next){ sampler->epoch, sampler->position * (size_t)sampler->world_size };
}

static void path_of(const Checkpoint *checkpoint, const char *name, char path[PATH_MAX])
{
    const char *dir = checkpoint->args->checkpoint_dir;
    CHECK(snprintf(path, PATH_MAX, "%s/%s.safetensors", dir, name) < PATH_MAX,
          "the path of --checkpoint-dir is too long: %s", dir);
}

static void save(const Checkpoint *checkpoint, const char *name)
{
    const Next next = next_of(checkpoint->sampler);
    char path[PATH_MAX], checksum[9], error[PATH_MAX + 128];
    path_of(checkpoint, name, path);

    Safetensors *file = safetensors_create();
    add_tensors(checkpoint->optim, file);
    checkpoint_describe(checkpoint, file);
    add_text(file, "epoch", "%d", next.epoch);
    add_text(file, "position", "%zu", next.position);
    add_text(file, "step", "%llu", (unsigned long long)checkpoint->optim->model->step);
    checkpoint_checksum(file, checksum);
    add_text(file, "checksum", "%s", checksum);

    folder_create(checkpoint->args->checkpoint_dir, "--checkpoint-dir");
    CHECK(safetensors_commit(file, path, error, sizeof error),
          "%s: make room, or name another folder with --checkpoint-dir", error);
    safetensors_free(file);
    const int latest = next.epoch - (next.position == 0 && next.epoch > 0);
    log_print("Epoch %d | Training checkpoint saved at %s", latest, path);
}

void checkpoint_save(const Checkpoint *checkpoint)
{
    const Next next = next_of(checkpoint->sampler);
    if (next.position > 0)
        return;
    char name[32];
    snprintf(name, sizeof name, "epoch_%d", next.epoch);
    save(checkpoint, name);
}

void checkpoint_save_final(const Checkpoint *checkpoint)
{
    if (checkpoint->args->epochs == 0) {
        checkpoint_save(checkpoint);
        return;
    }
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "%s_%s", checkpoint->optim->model->name, checkpoint->dataset->name);
    path_of(checkpoint, name, path);
    if (!checkpoint->done || access(path, F_OK) < 0)
        save(checkpoint, name);
}
