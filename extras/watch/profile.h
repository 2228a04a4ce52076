/*
 * profile.h - where the time of a run went: a table of phases, and a sentence on its bottleneck.
 *
 * A rank's wait for a collective has two parts. Until the last rank has called it, all ranks wait
 * for that rank, and the network is not to blame; the rest is communication not hidden by
 * computation.
 *
 * On GPUs all times but the wall time are the GPU's: a wait is how long it was idle for a
 * collective, the rest how long the host had queued nothing for it.
 */
#ifndef EXTRAS_WATCH_PROFILE_H
#define EXTRAS_WATCH_PROFILE_H

#include "extras/watch/timeline.h"

/* Writes the table on rank 0. Call it after timeline_stop; collective if there are other ranks.
 * Warns if the file cannot be written. */
void profile_write(FILE *file, const char *path, Timeline *timeline, int rank);

#endif
