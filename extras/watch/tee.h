/* tee.h - output of the ranks in files and, with a prefix before each line, on the console. */
#ifndef WATCH_TEE_H
#define WATCH_TEE_H

#include "common/launch/launch.h"

typedef struct Tee Tee;

/* Returns the descriptor for a worker's stream. What is written to it goes unchanged to file_fd,
 * which belongs to the tee from now on, and, unless console_fd is -1, to console_fd with the prefix
 * of this rank before each line. *tee is NULL before the first stream. */
int tee_add(Tee **tee, int file_fd, int console_fd, const Flags *flags, int rank, int local_rank);

/* Both do nothing if it is NULL. */
void tee_start(Tee *tee); // begins to copy
void tee_finish(Tee *tee); // copies what is left, incomplete lines too, and frees the tee

#endif
