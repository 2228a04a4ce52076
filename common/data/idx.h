/* idx.h - reads IDX, the format of MNIST's files, plain or gzipped. */
#ifndef COMMON_DATA_IDX_H
#define COMMON_DATA_IDX_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* Writes to path which file holds the set NAME: DIR/NAME or DIR/NAME.gz, where the name's "-idx"
 * may also be written ".idx". Dies with one line if none is there and readable. Local. */
void idx_find(const char *dir, const char *name, char path[PATH_MAX]);

/* Reads the file that idx_find finds: bytes of ndim dimensions, whose sizes go to shape. Returns
 * them in memory to be freed. Dies with one line if the file is missing, no regular file, of
 * another type or dimension, claims 2 GiB or more, or is longer or shorter than its header says.
 * What follows the end of a compressed stream and is no other stream is ignored, as gzip does.
 * Local. Source: the description of the format on the MNIST page of LeCun, Cortes and Burges. */
uint8_t *idx_read(const char *dir, const char *name, int ndim, size_t *shape);

#endif
