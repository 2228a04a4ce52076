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
    unsigned id; // of all sets of this process the n-th to be loaded: a device may keep a copy under
                 // this name; 0: made by hand, and may change at any time
    size_t size; // number of rows
    size_t features; // inputs per row: 20, or 28 x 28 pixels
    int num_classes; // 0: the targets are numbers, not classes

    // One of these two holds the inputs, [size][features]. Bytes are normalised when they are
    // gathered into a batch: (x / 255 - mean) / std. Floats are normalised already.
    uint8_t *bytes;
    float *floats;

    int32_t *labels; // [size], where there are classes
    float *targets; // [size][1], where there are none
    float mean, std; // of pixels from 0 to 1: MNIST's, for digits too; 0 and 1: none
    float normalised[256]; // byte -> normalised float

    int shards; // into which batches of the whole group are cut (args_shards); 0: they are not
} Dataset;

/* Loads one half of the set that args name. Local; dies with one line on files that are missing,
 * damaged or too large. The random set draws its rows from rng, as in PyTorch's series, where the
 * model's weights come next from the same generator; its TEST half is empty. args->num_samples
 * shortens the TRAIN half. */
void dataset_init(Dataset *dataset, const Args *args, Split split, Rng *rng);
void dataset_free(Dataset *dataset);

/* Normalises images anew, by the mean and std that a model was trained with. */
void dataset_normalise(Dataset *dataset, float mean, float std);

/* More rows than this no batch of the set that args name can have, whatever --batch-size says;
 * INT_MAX where files tell, which nobody has opened yet. */
int dataset_max_rows(const Args *args);

#endif
