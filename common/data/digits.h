/* digits.h - 1,797 real handwritten digits, embedded in the program; see data/README.md. */
#ifndef COMMON_DATA_DIGITS_H
#define COMMON_DATA_DIGITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGITS_ROWS = 1797 }; // of both halves

/* Allocates images ([28][28] each, from 0 to 1, made to look like MNIST) and labels of one half:
 * row i of the file is a test sample when i % 5 == 0, else a training sample. Returns how many. */
size_t digits_read(bool test, float **images, int32_t **labels);

#endif
