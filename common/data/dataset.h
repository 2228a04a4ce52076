/* dataset.h - labelled rows, all in host memory: random numbers, small digits, or MNIST. */
#ifndef COMMON_DATA_DATASET_H
#define COMMON_DATA_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/args.h"
#include "common/base/rng.h"

typedef enum { TRAIN, TEST } Split;

typedef struct {
    const char *name; // "random", "digits" or "mnist"
    unsigned id; // cache key, so that a device can keep a copy; 0: made by hand, never cached
    size_t size; // number of rows
    size_t features; // inputs per row: 20, or 28 x 28 pixels
    int num_classes; // 0: the targets are numbers, not classes

    // One of these two holds the inputs, [size][features]. Bytes are normalised when they are
    // gathered into a batch: (x / 255 - mean) / std. Floats are normalised already.
    uint8_t *bytes;
    float *floats;

    int32_t *labels; // [size], where there are classes
    float *targets; // [size][1], where there are none
    float mean, std; // of pixels scaled to [0, 1]: MNIST's, also for digits; 0 and 1: none
    float normalised[256]; // byte -> normalised float

    int shards; // per global batch (args_shards); 0: batches are not cut
} Dataset;

/* Loads one half of the data set in args. Local; dies with one line on files that are missing,
 * damaged or too large. The random set draws its rows from rng, as in PyTorch's series, where the
 * model's weights come next from the same generator; its TEST half is empty. args->num_samples
 * shortens the TRAIN half. */
void dataset_init(Dataset *dataset, const Args *args, Split split, Rng *rng);
void dataset_free(Dataset *dataset);

/* Renormalises images by the mean and std that a model was trained with. */
void dataset_normalise(Dataset *dataset, float mean, float std);

/* No batch of the data set in args can have more rows than this, whatever --batch-size says;
 * INT_MAX where only the files know, which are not open yet. */
int dataset_max_rows(const Args *args);

#endif
