/* tee.h - copies streams of workers to files and, line by line, to the console. */
#ifndef COMMON_LAUNCH_TEE_H
#define COMMON_LAUNCH_TEE_H

typedef struct Tee Tee;

Tee *tee_create(int max_streams);

/* Adds a stream: what is written to the returned descriptor goes unchanged to file_fd (owned by the
 * tee from now on), and to console_fd, unless that is -1, with the prefix before each line. */
int tee_add(Tee *tee, int file_fd, int console_fd, const char *prefix);

/* Starts copying, in a thread of its own. */
void tee_start(Tee *tee);

/* Once the writers have ended: copies the rest, incomplete lines too, and frees everything. Does
 * not wait for other processes that still hold a stream open; but it does for the console, as every
 * program does: one that is stopped (Ctrl-S, a pager) may go on at any time. */
void tee_finish(Tee *tee);

#endif
