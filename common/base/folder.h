/* folder.h - creates folders to write into. */
#ifndef COMMON_BASE_FOLDER_H
#define COMMON_BASE_FOLDER_H

#include <stdbool.h>

/* Creates the missing parts of path, as mkdir -p; it may exist already, since other ranks create it
 * too. Returns false and sets errno on failure. */
bool folder_try(const char *path);

/* Does the same, but dies on failure; names the option for another folder: "--log-dir". */
void folder_create(const char *path, const char *option);

/* Dies with a usage error if folder_create would fail or the folder is not writable, so that the
 * user learns of it before the work rather than after, and the launcher does not restart a job that
 * would fail again. Creates neither folder nor file. */
void folder_check(const char *path, const char *option);

#endif
