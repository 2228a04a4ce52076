/* models.h - shared by the tests of the models: a model under test, and rows for it. */
#ifndef TESTS_COMMON_NN_MODELS_H
#define TESTS_COMMON_NN_MODELS_H

#include <stdlib.h>

#include <string.h>

#include "common/nn/model.h"
#include "tests/common/nn/on_device.h"
#include "tests/helpers/exact.h"

enum { ROWS = 6, PIXELS = 28 * 28, CLASSES = 10 };

/* A model with its device, initialized by a generator that has drawn `drawn` numbers. */
typedef struct {
    Args args;
    Device device;
    Model model;
} Subject;

static inline void subject_init(Subject *subject, const char *name, uint64_t seed, int threads,
                                int drawn)
{
    Rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < drawn; i++)
        rng_next(&rng);
    args_defaults(&subject->args, name);
    subject->args.device = test_device_kind();
    subject->args.threads = threads;
    subject->args.seed = seed;
    device_init(&subject->device, &subject->args, 0);
    model_init(&subject->model, &subject->args, ROWS, &rng, &subject->device);
}

static inline void subject_free(Subject *subject)
{
    model_free(&subject->model);
    device_free(&subject->device);
}

/* Returns one parameter, or its gradient, in PyTorch's layout; free it. */
static inline float *exported(const Subject *subject, int i, const float *array)
{
    float *host = mem_calloc(subject->model.parameter[i].numel, sizeof *host);
    model_export(&subject->model, i, array, host);
    return host;
}

static inline double *exported_all(const Subject *subject, const float *array)
{
    const Model *model = &subject->model;
    double *all = mem_calloc(model->numel, sizeof *all);
    for (int i = 0; i < model->num_parameters; i++) {
        float *host = exported(subject, i, array);
        for (size_t j = 0; j < model->parameter[i].numel; j++)
            all[model->parameter[i].offset + j] = host[j];
        free(host);
    }
    return all;
}

/* Returns random rows, with labels or targets. */
static inline Dataset *random_dataset(const char *model)
{
    static Dataset dataset;
    static float inputs[ROWS * PIXELS], targets[ROWS];
    static int32_t labels[ROWS];
    Rng rng;
    rng_seed(&rng, 99);
    for (int i = 0; i < ROWS * PIXELS; i++)
        inputs[i] = rng_uniform_between(&rng, -1, 1);
    for (int i = 0; i < ROWS; i++) {
        labels[i] = rng_next(&rng) % CLASSES;
        targets[i] = rng_uniform(&rng);
    }
    const bool is_cnn = strcmp(model, "cnn") == 0;
    dataset = (Dataset){ .name = "random", .size = ROWS, .floats = inputs, .std = 1 };
    dataset.features = is_cnn ? PIXELS : 20;
    dataset.num_classes = is_cnn ? CLASSES : 0;
    dataset.labels = is_cnn ? labels : NULL;
    dataset.targets = is_cnn ? NULL : targets;
    return &dataset;
}

/* A batch's rows. */
static const size_t order[ROWS] = { 3, 0, 5, 1, 4, 2 };

#endif
