/* folder_lock.h - one run at a time in a checkpoint folder. */
#ifndef FAULT_TOLERANCE_FOLDER_LOCK_H
#define FAULT_TOLERANCE_FOLDER_LOCK_H

#include <stdbool.h>

/* Locks the folder for this process, creating it if need be. The kernel unlocks it however the
 * process ends; close() the returned descriptor to unlock it earlier. If another process has it and
 * does not end within seconds, ends this one with a usage error that names it: both would take each
 * other's snapshots for their own. -1: the folder is not writable, so nobody saves there. On a file
 * system without locks it keeps nobody out. Local. */
int folder_lock(const char *dir);

/* Is it locked by another job? All ranks of a job have the same MASTER_ADDR and MASTER_PORT, or a
 * number by mpirun or Slurm; of one that has neither the answer is false. Where nobody has locked
 * it, this job's rank 0 may be about to. Local. */
bool folder_lock_is_foreign(const char *dir);

#endif
