/* scratch.h - a copy of the data on the node's own disk. */
#ifndef COMMON_DATA_SCRATCH_H
#define COMMON_DATA_SCRATCH_H

#include "common/base/args.h"

/* Copies the data set's files from args->data_dir to args->scratch_dir, where dataset_init looks
 * for them; does nothing without --scratch-dir or for a data set without files. One rank per node
 * calls it, followed by a barrier before any rank reads. A file with the same contents stays as it
 * is. Every copy is read back and compared (CRC-32). Dies with one line if a file is missing or
 * cannot be written. Local. */
void scratch_fill(const Args *args);

#endif
