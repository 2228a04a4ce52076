/* folder.h - creates folders to write into. */
#ifndef COMMON_BASE_FOLDER_H
#define COMMON_BASE_FOLDER_H

#include <stdbool.h>

/* As mkdir -p: creates the missing parts of path; it may exist already, since other ranks create it
 * too. False and errno on failure. */
bool folder_try(const char *path);

/* The same, but dies on failure and names the option that selects another folder: "--log-dir". */
void folder_create(const char *path, const char *option);

/* Usage error if folder_create would fail or the folder is not writable: so the user learns of it
 * before the work rather than after, and the launcher does not restart a job that would fail again.
 * Creates neither folder nor file. */
void folder_check(const char *path, const char *option);

#endif
