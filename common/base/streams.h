/* streams.h - makes sure that output arrives where it belongs, or that its loss is noticed. */
#ifndef COMMON_BASE_STREAMS_H
#define COMMON_BASE_STREAMS_H

#include <stdnoreturn.h>

/* Call it before the first file is opened: that would get the descriptor of a closed standard
 * stream, and its output. Closed streams become streams whose writes fail. A file that must not
 * grow (ulimit -f) also fails the write from here on, instead of raising a signal. And SIGCHLD is
 * no longer ignored if our parent ignored it: wait() would lose the children's exit statuses. */
void streams_guard(void);

/* Ends this process after the last printf: with status 0, or with 1 and a line on standard error if
 * standard output could not be written. */
noreturn void streams_exit(void);

#endif
