/* Inference is the forward pass of training, with a batch of one and dropout off. */
#include "tools/model/classifier.h"

#include <math.h>
#include <string.h>

#include "common/base/log.h"

void classifier_init(Classifier *classifier, const Args *args, ModelFile *from, int max_batch,
                     int local_rank)
{
    CHECK(from->num_labels > 0,
          "%s: is of model %s, which gives a number and no class: name a file of a cnn",
          from->file.path, from->model);
    Args own = *args;
    option_set(args_option("model"), &own, from->model, NULL);
    classifier->from = from;
    device_init(&classifier->device, &own, local_rank);
    Rng rng; // draws weights that are overwritten
    rng_seed(&rng, 0);
    model_init(&classifier->model, &own, max_batch, &rng, &classifier->device);
    model_file_load(from, &classifier->model);
    model_eval(&classifier->model);

    static int32_t no_label; // the resulting loss is not used
    classifier->image = (Dataset){ .name = "image",
                                   .size = 1,
                                   .features = MNIST_PIXELS,
                                   .num_classes = from->num_labels,
                                   .bytes = classifier->pixels,
                                   .labels = &no_label };
    dataset_normalise(&classifier->image, from->mean, from->std);
}

void classifier_free(Classifier *classifier)
{
    model_free(&classifier->model);
    device_free(&classifier->device);
}

void classifier_log_probs(const Classifier *classifier, int rows, float *log_probs)
{
    const size_t count = (size_t)rows * (size_t)classifier->from->num_labels;
    const Model *model = &classifier->model;
    device_copy(model->device, log_probs, model->log_probs, count * sizeof *log_probs,
                COPY_TO_HOST);
}

int classifier_argmax(const float *log_probs, int classes)
{
    int best = 0;
    for (int c = 1; c < classes; c++)
        if (log_probs[c] > log_probs[best])
            best = c;
    return best;
}

int classifier_predict_row(Classifier *classifier, const Dataset *dataset, size_t row,
                           float *probability)
{
    const Batch batch = { .dataset = dataset, .index = &row, .size = 1, .row_stride = 1 };
    model_forward(&classifier->model, &batch);
    classifier_log_probs(classifier, 1, probability);
    const int classes = classifier->from->num_labels;
    const int best = classifier_argmax(probability, classes);
    for (int c = 0; c < classes; c++)
        probability[c] = expf(probability[c]);
    return best;
}

int classifier_predict(Classifier *classifier, const uint8_t *pixels, float *probability)
{
    memcpy(classifier->pixels, pixels, MNIST_PIXELS);
    return classifier_predict_row(classifier, &classifier->image, 0, probability);
}
