/* digits.h - 1,797 real handwritten digits, embedded in the program; see data/README.md. */
#ifndef COMMON_DATA_DIGITS_H
#define COMMON_DATA_DIGITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGITS_ROWS = 1797 }; // of both halves

/* Returns the number of rows of one half, and allocates its images ([rows][28 * 28], made to look
 * like MNIST and normalised) and labels: row i of the file is a test sample when i % 5 == 0, else a
 * training sample. Local. */
size_t digits_read(bool test, float mean, float std, float **images, int32_t **labels);

#endif
