/* scratch.h - a copy of the data on the node's own disk. */
#ifndef COMMON_DATA_SCRATCH_H
#define COMMON_DATA_SCRATCH_H

#include "common/base/args.h"

/* Copies the data set's files from args->data_dir to args->scratch_dir, where dataset_init looks
 * for them; does nothing without --scratch-dir, or where the set is no files. One rank of each node
 * calls it, and a barrier comes before anybody reads. A file that is there already with the same
 * contents stays. Every copy is read back and compared (CRC-32). Dies with one line where a file is
 * missing or cannot be written. Local. */
void scratch_fill(const Args *args);

#endif
