/*
 * A file describes its model in its metadata, which is text from outside: every value is checked
 * before it is used or printed.
 */
#include "tools/model/model_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/save/checkpoint.h"

/* Returns a required value, printable text. */
static const char *text_of(const ModelFile *model_file, const char *key)
{
    const char *path = model_file->file.path, *text = safetensors_metadata(&model_file->file, key);
    CHECK(text != NULL, "%s: its metadata has no \"%s\"", path, key);
    char *plain = strdup(text);
    CHECK(plain != NULL, "out of memory");
    text_disarm(plain, "");
    CHECK(strcmp(plain, text) == 0, "%s: \"%s\" in its metadata is no plain text", path, key);
    free(plain);
    return text;
}

static float number_of(const ModelFile *model_file, const char *key, double low)
{
    const char *text = text_of(model_file, key);
    char *end = NULL;
    const double value = strtod(text, &end);
    CHECK(end != text && *end == '\0' && value >= low && fabs(value) <= 1e6,
          "%s: \"%s\" in its metadata is \"%.40s\", which normalises nothing",
          model_file->file.path, key, text);
    return (float)value;
}

/* Reads labels such as "0,1,2". */
static void read_labels(ModelFile *model_file, const char *text)
{
    if (text[0] == '\0')
        return;
    for (const char *label = text;; label++) {
        const size_t length = strcspn(label, ",");
        CHECK(model_file->num_labels < MODEL_FILE_MAX_LABELS && length > 0 &&
                  length < MODEL_FILE_LABEL_BYTES,
              "%s: \"class_labels\" in its metadata is no list of up to %d names",
              model_file->file.path, MODEL_FILE_MAX_LABELS);
        memcpy(model_file->label[model_file->num_labels++], label, length);
        label += length;
        if (*label == '\0')
            break;
    }
}

static void describe(ModelFile *model_file)
{
    model_file->model = text_of(model_file, "model");
    CHECK(strcmp(model_file->model, "cnn") == 0 || strcmp(model_file->model, "linear") == 0,
          "%s: is of model %.40s; this program knows cnn and linear", model_file->file.path,
          model_file->model);
    model_file->dataset = text_of(model_file, "dataset");
    model_file->input_shape = text_of(model_file, "input_shape");
    model_file->mean = number_of(model_file, "mean", -1e6);
    model_file->std = number_of(model_file, "std", 1e-6);
    read_labels(model_file, text_of(model_file, "class_labels"));

    const bool cnn = strcmp(model_file->model, "cnn") == 0;
    CHECK(strcmp(model_file->input_shape, cnn ? "1,28,28" : "20") == 0 &&
              model_file->num_labels == (cnn ? 10 : 0),
          "%s: says that its %s takes inputs of %.40s and knows %d classes: it is no model of ours",
          model_file->file.path, model_file->model, model_file->input_shape,
          model_file->num_labels);
}

void model_file_open(ModelFile *model_file, const char *path)
{
    *model_file = (ModelFile){ 0 };
    Safetensors *file = &model_file->file;
    CHECK(checkpoint_open(file, path), "%s%s", file->error,
          file->data == NULL ? ": name a checkpoint, or a folder that tools/export has made" : "");
    // Files of other programs may have a "model", too.
    if (safetensors_metadata(file, CHECKPOINT_VERSION_KEY) != NULL ||
        safetensors_metadata(file, EXPORT_VERSION_KEY) != NULL ||
        safetensors_metadata(file, "class_labels") != NULL) {
        describe(model_file);
        return;
    }

    model_file->model = "cnn";
    model_file->input_shape = "1,28,28";
    model_file->mean = 0.1307f;
    model_file->std = 0.3081f;
    read_labels(model_file, "0,1,2,3,4,5,6,7,8,9");
    if (log_prints_for_job())
        log_info("%s: does not say what it is: taken for a CNN trained on MNIST (mean 0.1307, std "
                 "0.3081, classes 0 to 9)",
                 model_file->file.path);
}

void model_file_load(ModelFile *model_file, Model *model)
{
    CHECK(checkpoint_load_weights(&model_file->file, model), "%s", model_file->file.error);
}

void model_file_close(ModelFile *model_file)
{
    safetensors_free(&model_file->file);
}
