/* tee.h - copies streams of workers to files and, line by line, to the console. */
#ifndef COMMON_LAUNCH_TEE_H
#define COMMON_LAUNCH_TEE_H

typedef struct Tee Tee;

Tee *tee_create(int max_streams);

/* One more stream: what is written to the descriptor returned goes to file_fd (which becomes the
 * tee's own) as it is, and to console_fd, unless that is -1, with the prefix before each line. */
int tee_add(Tee *tee, int file_fd, int console_fd, const char *prefix);

/* Starts copying, in a thread of its own. */
void tee_start(Tee *tee);

/* Once the writers have ended: copies what is left, half lines too, and frees everything. Does not
 * wait for strangers who still hold a stream open; but for the console, as every program does: one
 * that is held (Ctrl-S, a pager) may go on any time, and its reader wants all of it. */
void tee_finish(Tee *tee);

#endif
