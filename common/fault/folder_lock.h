/* folder_lock.h - one run at a time in a checkpoint folder. */
#ifndef COMMON_FAULT_FOLDER_LOCK_H
#define COMMON_FAULT_FOLDER_LOCK_H

/* Locks the folder for this process, creating it if need be. The kernel unlocks it however the
 * process ends; close() the returned descriptor to unlock it earlier. If another process has it and
 * does not end within seconds, ends this one with a usage error that names it: both would take each
 * other's snapshots for their own. -1: the folder is not writable, so nobody saves there. On a file
 * system without locks it keeps nobody out. Local. */
int folder_lock(const char *dir);

#endif
