/* classifier.h - inference: which class is this image? */
#ifndef TOOLS_MODEL_CLASSIFIER_H
#define TOOLS_MODEL_CLASSIFIER_H

#include "tools/model/mnist_form.h"
#include "tools/model/model_file.h"

/* A model for inference. Must not be moved: its parts point to each other. One per thread. */
typedef struct {
    const ModelFile *from; // borrowed; has the labels
    Device device;
    Model model; // dropout is off
    Dataset image; // a data set of one row: the pixels to classify
    uint8_t pixels[MNIST_PIXELS];
} Classifier;

/* Loads a model for batches of up to max_batch rows. Reads device, threads and dataset of args.
 * Dies with one line if the file's model is no classifier or does not match its name. Local. */
void classifier_init(Classifier *classifier, const Args *args, ModelFile *from, int max_batch,
                     int local_rank);
void classifier_free(Classifier *classifier);

/* Returns the class of a row of a data set, or of pixels in MNIST's form (mnist_form.h); sets
 * probability[from->num_labels] to each class's probability. */
int classifier_predict_row(Classifier *classifier, const Dataset *dataset, size_t row,
                           float *probability);
int classifier_predict(Classifier *classifier, const uint8_t *pixels, float *probability);

/* Copies log_probs[rows][classes] of the last forward pass of classifier->model. */
void classifier_log_probs(const Classifier *classifier, int rows, float *log_probs);

/* Returns the index of the largest log_probs[classes], the first of equals, as in model_correct. */
int classifier_argmax(const float *log_probs, int classes);

#endif
