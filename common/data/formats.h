/* formats.h - what data sets are read from: digits in the program, and IDX, the format of MNIST's
 * files. */
#ifndef COMMON_DATA_FORMATS_H
#define COMMON_DATA_FORMATS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGITS_ROWS = 1797 }; // of both halves

/* Real handwritten digits, embedded in the program; see data/README.md. Allocates images ([28][28]
 * each, from 0 to 1, made to look like MNIST) and labels of one half: row i of the file is a test
 * sample when i % 5 == 0, else a training sample. Returns how many. */
size_t digits_read(bool test, float **images, int32_t **labels);

/* Finds the file of the set NAME: DIR/NAME or DIR/NAME.gz, whose "-idx" may also be ".idx", and
 * writes its path. Usage error if there is none; dies if it cannot be read. Local. */
void idx_find(const char *dir, const char *name, char path[PATH_MAX]);

/* Reads the file found by idx_find: bytes of ndim dimensions, whose sizes go to shape. Free them
 * with free(). Dies with one line if the file is missing, no regular file, of another type or
 * dimension, claims 2 GiB or more, or is longer or shorter than its header says. Trailing garbage
 * after a compressed stream is ignored, as gzip does. Local. Source: the description of the format
 * on the MNIST page of LeCun, Cortes and Burges. */
uint8_t *idx_read(const char *dir, const char *name, int ndim, size_t *shape);

#endif
