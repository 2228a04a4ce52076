/* dataset.h - labelled rows, all in host memory: random numbers, small digits, or MNIST. */
#ifndef COMMON_DATA_DATASET_H
#define COMMON_DATA_DATASET_H

#include <limits.h>
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

    int32_t *labels; // [size], if there are classes
    float *targets; // [size][1], if there are no classes
    float mean, std; // those of pixels scaled to [0, 1], MNIST's also for digits; 0 and 1: none
    float normalised[256]; // byte -> normalised float

    int shards; // shards of a global batch (args_shards); 0: batches are not cut
} Dataset;

/* Loads one half of the data set in args. Local; dies with one line on files that are missing,
 * damaged or too large. The random set draws its rows from rng, as in PyTorch's series, where the
 * model's weights are drawn next from the same generator; its TEST half is empty. args->num_samples
 * shortens the TRAIN half. */
void dataset_init(Dataset *dataset, const Args *args, Split split, Rng *rng);
void dataset_free(Dataset *dataset);

/* Renormalises images by the mean and std that a model was trained with. */
void dataset_normalise(Dataset *dataset, float mean, float std);

/* Returns the most rows that a batch of the data set in args can have, whatever --batch-size is;
 * INT_MAX if that depends on files, which are not open yet. */
int dataset_max_rows(const Args *args);

/* ---- where data sets are read from: for this room and for tools ---- */

enum { DIGITS_ROWS = 1797 }; // rows of both halves

/* Reads real handwritten digits, embedded in the program (data/README.md). Allocates images
 * ([28][28] each, from 0 to 1, made to look like MNIST) and labels of one half: row i of the file
 * is a test sample when i % 5 == 0, else a training sample. Returns how many. */
size_t digits_read(bool test, float **images, int32_t **labels);

/* Images and labels to train on, images and labels to test. */
enum { MNIST_FILES = 4 };
extern const char *const mnist_files[MNIST_FILES];

/* Finds the file of the set NAME and writes its path: NAME or NAME.gz in DIR with something in it,
 * or what idx_find_other finds. Usage error if there is none; dies if there is something else or it
 * cannot be read. Local. */
void idx_find(const char *dir, const char *name, char path[PATH_MAX]);

/* Reads the file found by idx_find: bytes of ndim dimensions, whose sizes go to shape. Free them
 * with free(). Dies with one line if the file is missing, not a regular file, of another type or
 * dimension, claims 2 GiB or more, or is longer or shorter than its header says. Trailing garbage
 * after a compressed stream is ignored, as gzip does. Local. Source: the description of the format
 * on the MNIST page of LeCun, Cortes and Burges. */
uint8_t *idx_read(const char *dir, const char *name, int ndim, size_t *shape);

/* Returns whether it is a file that is not empty. Else problem, if still empty, says what it is. */
enum { IDX_PROBLEM_BYTES = PATH_MAX + 64 };
bool idx_is_usable(const char *path, char *problem);

/* Related sets (extras/other_sets): finds NAME by other names and in folders of DIR; returns bytes
 * made of another type or shape, NULL if it is MNIST's, and dies if the meaning is not clear. */
bool idx_find_other(const char *dir, const char *name, char *path, char *problem);
uint8_t *idx_convert(const char *path, int ndim, size_t *shape);

#endif
