/* thread.h - a thread of the library, beside the training thread. */
#ifndef COMMON_BASE_THREAD_H
#define COMMON_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create, but with all signals blocked: they are for the main thread, which reads what
 * the handlers set. Returns 0 or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
