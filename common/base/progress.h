/* progress.h - a bar on the terminal, on the last line of standard error. */
#ifndef COMMON_BASE_PROGRESS_H
#define COMMON_BASE_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

/* Draws "text [=====>    ] done/total", at most ten times a second; nothing where standard error
 * is no terminal (or TERM is dumb), so logs stay clean. Call it from one thread. */
void progress_update(const char *text, size_t done, size_t total);

/* Would it draw now? For those whose text is costly. */
bool progress_due(size_t done, size_t total);

/* Takes the bar away for good. */
void progress_finish(void);

/* Around a line of log.h: takes the bar away for it, even one that another rank has drawn on the
 * terminal, and puts our own back below. Other threads' lines and bars wait in between. */
void progress_erase(void);
void progress_redraw(void);

#endif
