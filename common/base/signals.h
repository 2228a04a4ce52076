/* signals.h - the names of signals, and threads that get none. */
#ifndef COMMON_BASE_SIGNALS_H
#define COMMON_BASE_SIGNALS_H

#include <pthread.h>

/* "SIGTERM"; of those without a name "signal 35". Valid until the next call. */
const char *signal_name(int signal);

/* As pthread_create, but with all signals blocked: they are for the main thread, which reads what
 * the handlers set. Returns 0 or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
