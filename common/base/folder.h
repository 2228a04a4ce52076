/* folder.h - makes a folder to write into. */
#ifndef COMMON_BASE_FOLDER_H
#define COMMON_BASE_FOLDER_H

#include <stdbool.h>

/* As mkdir -p: creates what is missing of path; it may be there already, since other ranks create
 * it too. Dies if it cannot be, naming the part that is in the way, and the option that names
 * another: "--log-dir". */
void folder_create(const char *path, const char *option);

/* The same for what a program can do without: false, with errno, instead of the end. */
bool folder_try(const char *path);

/* Dies where folder_create could not succeed, or nothing could be written into the folder: better
 * before the work than after. Leaves nothing behind, and the folder uncreated. */
void folder_check(const char *path, const char *option);

#endif
