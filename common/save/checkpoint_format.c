/*
 * What every checkpoint contains: the names of its tensors, its checksums, and the metadata that a
 * run's settings give.
 */
#include "common/save/checkpoint_format.h"

#include <stdio.h>

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

/* "1,28,28" for a model that begins with a convolution, else the number of features. */
static void describe_input(const Checkpoint *checkpoint, Safetensors *file)
{
    const Tensor *first = &checkpoint->optim->model->parameter[0];
    const size_t features = checkpoint->dataset->features;
    if (first->ndim != 4) {
        safetensors_add_metadata(file, "input_shape", "%zu", features);
        return;
    }
    const size_t channels = first->shape[1];
    size_t side = 1;
    while (channels * side * side < features)
        side++;
    safetensors_add_metadata(file, "input_shape", "%zu,%zu,%zu", channels, side, side);
}

/* The labels in the order of the model's outputs: "0,1,2,3,4,5,6,7,8,9". */
static void describe_classes(const Dataset *dataset, Safetensors *file)
{
    char text[256] = "";
    size_t length = 0;
    for (int i = 0; i < dataset->num_classes && length < sizeof text; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, i > 0 ? ",%d" : "%d", i);
    safetensors_add_metadata(file, "class_labels", "%s", text);
}

void checkpoint_describe(const Checkpoint *checkpoint, Safetensors *file)
{
    const Optimizer *optim = checkpoint->optim;
    const Dataset *dataset = checkpoint->dataset;
    const int batch_size = args_batch_size(checkpoint->args, checkpoint->world_size);
    safetensors_add_metadata(file, "format", "pt"); // as in PyTorch's own files
    safetensors_add_metadata(file, CHECKPOINT_VERSION_KEY, CHECKPOINT_VERSION);
    safetensors_add_metadata(file, "model", "%s", optim->model->name);
    safetensors_add_metadata(file, "dataset", "%s", dataset->name);
    safetensors_add_metadata(file, "num_samples", "%zu", dataset->size);
    safetensors_add_metadata(file, "seed", "%llu", (unsigned long long)checkpoint->args->seed);
    safetensors_add_metadata(file, "world_size", "%d", checkpoint->world_size);
    safetensors_add_metadata(file, "global_batch_size", "%lld",
                             (long long)checkpoint->world_size * batch_size);
    safetensors_add_metadata(file, "optimizer", "%s", optim->name);
    safetensors_add_metadata(file, "lr", "%.15g", optim->lr);
    safetensors_add_metadata(file, "momentum", "%.15g", optim->momentum);
    safetensors_add_metadata(file, "weight_decay", "%.15g", optim->weight_decay);
    safetensors_add_metadata(file, "dropout", "%s", checkpoint->args->dropout ? "on" : "off");

    describe_input(checkpoint, file);
    describe_classes(dataset, file);
    safetensors_add_metadata(file, "mean", "%.7g", (double)dataset->mean);
    safetensors_add_metadata(file, "std", "%.7g", (double)dataset->std);
}
