/* recording.h - --trace and --profile: what they record of this run, and when it is written. */
#ifndef EXTRAS_WATCH_RECORDING_H
#define EXTRAS_WATCH_RECORDING_H

#include "common/base/args.h"

bool recording_enabled(const Args *args);

/* Opens the files on rank 0 and starts recording, if requested. stream: the watched GPU's, or NULL.
 * Dies if a file cannot be written: better now than after the training. Local. */
void recording_start(const Args *args, int rank, void *stream);

/* Ends what recording_start has begun; with a single rank, writes its files. Local. */
void recording_stop(void);

/* Writes the files of all ranks, if there was a recording. Collective. */
void recording_write(void);

#endif
