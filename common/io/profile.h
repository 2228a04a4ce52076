/*
 * profile.h - where the time of a run went: a table of phases, and a sentence on what bounds it.
 *
 * The time in which a rank waits for a collective has two parts. Until the last rank has called it,
 * everybody waits for that rank, and no network could be blamed; the rest is communication that no
 * computation hides.
 *
 * On GPUs all times but the wall's are the GPU's: a wait is how long it stood still for a
 * collective, and the rest how long the host had given it nothing to do.
 */
#ifndef COMMON_IO_PROFILE_H
#define COMMON_IO_PROFILE_H

#include "common/io/timeline.h"

/* Writes the table on rank 0. To be called when the timeline has stopped; collective where it has a
 * group. Warns where the file cannot be written. */
void profile_write(FILE *file, const char *path, Timeline *timeline, int rank);

#endif
