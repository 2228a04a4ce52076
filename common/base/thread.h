/* thread.h - a thread of the library's own, beside the one that trains. */
#ifndef COMMON_BASE_THREAD_H
#define COMMON_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create, but the thread takes no signals: they are for the main thread, where what the
 * handlers set is looked at. Returns 0 or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
