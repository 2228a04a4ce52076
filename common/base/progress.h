/* progress.h - a bar on the terminal, on the last line of standard error. */
#ifndef COMMON_BASE_PROGRESS_H
#define COMMON_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

/* Draws "text [=====>....] done/total", at most ten times a second; nothing unless standard error
 * is a terminal (and TERM not dumb), so logs stay clean. Call it from one thread. */
void progress_update(const char *text, size_t done, size_t total);

/* Would it draw now? For callers whose text is expensive to make. */
bool progress_due(size_t done, size_t total);

/* Removes the bar for good. */
void progress_finish(void);

/* Around a line of log.h: the first removes the bar, even one that another rank has drawn on the
 * terminal, the second draws our own below the line. Other threads' lines and bars wait in
 * between. */
void progress_erase(void);
void progress_redraw(void);

#endif
