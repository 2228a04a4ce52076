/* streams.h - makes sure that what is written arrives where it belongs, or that somebody hears. */
#ifndef COMMON_BASE_STREAMS_H
#define COMMON_BASE_STREAMS_H

#include <stdnoreturn.h>

/* To be called before a program opens its first file, which would take the place of a standard
 * stream that is closed, and get its lines: closed ones become streams that fail. A file that must
 * not grow (ulimit -f) is from here on an error of the write too, and no signal. And a child's end
 * is waited for: ignored SIGCHLD, which is inherited, would take the exit statuses with it. */
void streams_guard(void);

/* Ends this process when printf has said all: with status 0, or with 1 and a line on standard error
 * where standard output did not take it. */
noreturn void streams_exit(void);

#endif
