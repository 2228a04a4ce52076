/* tee.h - output of the ranks in files and, with a prefix before each line, on the console. */
#ifndef WATCH_TEE_H
#define WATCH_TEE_H

#include "launcher/launch.h"

typedef struct Tee Tee;

/* The destinations of a stream: unchanged to file_fd, and with the prefix of its rank before each
 * line to console_fd and, if the line has one of the texts in filters, to filtered_fd. -1 if
 * absent. The tee owns both files. */
typedef struct {
    int file_fd, console_fd, filtered_fd;
    const char *filters; // "apple,orange"; two commas stand for one
} TeeTarget;

/* Returns the descriptor for a worker's stream. *tee is NULL before the first stream. */
int tee_add(Tee **tee, const TeeTarget *target, const Flags *flags, int rank, int local_rank);

/* Both do nothing if tee is NULL. */
void tee_start(Tee *tee); // begins to copy
void tee_finish(Tee *tee); // copies what is left, incomplete lines too, and frees the tee

#endif
