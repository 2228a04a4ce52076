/* signals.h - the names of signals, and threads that receive none. */
#ifndef COMMON_BASE_SIGNALS_H
#define COMMON_BASE_SIGNALS_H

#include <pthread.h>

/* "SIGTERM", or "signal 35" if it has no name. Valid until the next call. */
const char *signal_name(int signal);

/* As pthread_create, but with all signals blocked: they are for the main thread, which reads what
 * the handlers set. Returns 0 or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
