/*
 * model_file.h - a file with a trained model and its description: enough to use the model without
 * the run that made it.
 */
#ifndef TOOLS_MODEL_MODEL_FILE_H
#define TOOLS_MODEL_MODEL_FILE_H

#include "common/nn/model.h"
#include "common/save/safetensors.h"

enum { MODEL_FILE_MAX_LABELS = 16, MODEL_FILE_LABEL_BYTES = 32 };

typedef struct {
    Safetensors file;
    const char *model; // "cnn" or "linear"
    const char *dataset; // the data set that it was trained on; NULL if unknown
    const char *input_shape; // "1,28,28"
    float mean, std; // the normalisation of its inputs, pixels scaled to [0, 1]
    char label[MODEL_FILE_MAX_LABELS][MODEL_FILE_LABEL_BYTES]; // indexed by output of the model
    int num_labels; // 0 if it does not classify
} ModelFile;

/* Opens a checkpoint, a folder made by tools/export, or any safetensors file: one without metadata,
 * as PyTorch writes it, is taken for a CNN trained on MNIST, and a line reports this. Dies with one
 * line if it cannot be read, is damaged, or describes an impossible model. Local. */
void model_file_open(ModelFile *model_file, const char *path);

/* Loads the weights into a model of the kind model_file->model. Dies as checkpoint_load does. */
void model_file_load(ModelFile *model_file, Model *model);

void model_file_close(ModelFile *model_file);

#endif
