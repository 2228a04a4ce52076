/* progress.h - a bar on the terminal, on the last line of standard error. */
#ifndef EXTRAS_WATCH_PROGRESS_H
#define EXTRAS_WATCH_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

/* Draws "text [=====>....] done/total", at most ten times a second; does nothing unless standard
 * error is a terminal (and TERM not dumb), so logs stay clean. Call it from one thread. Lines of
 * log.h and progress_bar_finish() remove it. */
void progress_update(const char *text, size_t done, size_t total);

/* Returns true if bars can be drawn. Not if lines go through a pipe (`| grep Test`): they reach the
 * terminal late, in the middle of a bar. */
bool progress_on_terminal(void);

/* Returns true if it would draw now, for callers whose text is expensive to make. */
bool progress_due(size_t done, size_t total);

/* Notes that the training thread begins or ends waiting for a collective. If that takes seconds,
 * the bar shows "waiting 12 s for rank 2" instead of an estimate that is no longer true. */
void progress_waits(bool begins);
void progress_waits_for(int rank); // may be called by any thread

#endif
