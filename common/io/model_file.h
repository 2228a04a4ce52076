/*
 * model_file.h - a file with a trained model, and what it says of it: enough to use the model
 * without the run that made it.
 */
#ifndef COMMON_IO_MODEL_FILE_H
#define COMMON_IO_MODEL_FILE_H

#include <limits.h>

#include "common/io/safetensors.h"
#include "common/nn/model.h"

enum { MODEL_FILE_MAX_LABELS = 16, MODEL_FILE_LABEL_BYTES = 32 };

typedef struct {
    char path[PATH_MAX];
    Safetensors *file;
    const char *model; // "cnn" or "linear"
    const char *dataset; // it was trained on; NULL: the file does not say
    const char *input_shape; // "1,28,28"
    float mean, std; // of pixels from 0 to 1, by which its inputs were normalised
    char label[MODEL_FILE_MAX_LABELS][MODEL_FILE_LABEL_BYTES]; // of the model's outputs
    int num_labels; // 0: it does not classify
} ModelFile;

/* Opens a checkpoint, a folder that tools/export made, or any safetensors file: one without
 * metadata, as PyTorch writes it, is taken for a CNN trained on MNIST, and a line says so. Dies
 * with one line where it cannot be read, is damaged, or says what makes no sense. Local. */
void model_file_open(ModelFile *model_file, const char *path);

/* The weights; model is that which model_file->model names. Dies as checkpoint_load does. */
void model_file_load(const ModelFile *model_file, Model *model);

void model_file_close(ModelFile *model_file);

#endif
