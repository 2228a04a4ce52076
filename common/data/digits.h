/* digits.h - 1,797 real handwritten digits, embedded in the program; see data/README.md. */
#ifndef COMMON_DATA_DIGITS_H
#define COMMON_DATA_DIGITS_H

#include "common/data/dataset.h"

enum { DIGITS_ROWS = 1797 }; // of both halves

/* Fills size, floats ([size][28 * 28], made to look like MNIST and normalised by the mean and std
 * it finds in dataset) and labels of one half: row i of the file is a test sample when i % 5 == 0,
 * else a training sample. Local. */
void digits_load(Dataset *dataset, Split split);

#endif
