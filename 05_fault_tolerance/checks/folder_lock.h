/* folder_lock.h - one run at a time in a checkpoint folder. */
#ifndef FAULT_TOLERANCE_FOLDER_LOCK_H
#define FAULT_TOLERANCE_FOLDER_LOCK_H

#include <stdbool.h>

/* Locks the folder for this process, creating it if need be. The kernel unlocks it however the
 * process ends; close() the returned descriptor to unlock it earlier. If another process has it and
 * does not end within seconds, ends this one with a usage error that names it, because two runs
 * would resume from each other's snapshots. Only users who may write into the folder can lock it.
 * Usage error if the lock's file is a link, or of another user who does not let us read it. Returns
 * -1 if the folder is not writable, so that no run can save there. On a file system without locks
 * other runs are not kept out. Local. */
int folder_lock(const char *dir);

/* Returns whether another job has locked it. All ranks of a job have the same MASTER_ADDR and
 * MASTER_PORT, or a number from mpirun or Slurm; false for a job that has neither. If it is not
 * locked, this job's rank 0 may lock it next. Local. */
bool folder_lock_is_foreign(const char *dir);

#endif
