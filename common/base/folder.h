/* folder.h - makes a folder to write into. */
#ifndef COMMON_BASE_FOLDER_H
#define COMMON_BASE_FOLDER_H

/* As mkdir -p: creates what is missing of path; it may be there already, since other ranks create
 * it too. Dies if it cannot be, naming the part that is in the way. */
void folder_create(const char *path);

#endif
