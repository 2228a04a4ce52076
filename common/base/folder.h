/* folder.h - creates folders to write into. */
#ifndef COMMON_BASE_FOLDER_H
#define COMMON_BASE_FOLDER_H

#include <stdbool.h>

/* As mkdir -p: creates the missing parts of path; it may exist already, since other ranks create it
 * too. On failure dies, naming the path component at fault and the option that selects another
 * folder: "--log-dir". */
void folder_create(const char *path, const char *option);

/* The same for optional output: returns false and errno instead of dying. */
bool folder_try(const char *path);

/* Usage error if folder_create would fail or the folder is not writable: so the user learns of it
 * before the work rather than after, and the launcher does not restart a job that would fail again.
 * Creates neither folder nor file. */
void folder_check(const char *path, const char *option);

#endif
