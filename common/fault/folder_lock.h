/* folder_lock.h - one run at a time in a folder of checkpoints. */
#ifndef COMMON_FAULT_FOLDER_LOCK_H
#define COMMON_FAULT_FOLDER_LOCK_H

/* Takes the folder for this process, and creates it if need be. The kernel gives it back, however
 * the process ends; close() what is returned to do so before. Where another process has it and does
 * not end within seconds, ends this one with a usage error that names it: both would take each
 * other's snapshots for their own. -1: the folder cannot be written, so nobody saves there. On a
 * file system without locks nobody is kept out. Local. */
int folder_lock(const char *dir);

#endif
