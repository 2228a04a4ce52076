/*
 * A thread that waits to be stopped, and ends the process if nobody does: the one who should is
 * inside a call that does not come back.
 */
#include "common/comm/watchdog.h"

#include <math.h>
#include <time.h>

#include "common/base/log.h"
#include "common/base/thread.h"

static void *watch(void *argument)
{
    Watchdog *watchdog = argument;
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    const double end = (double)deadline.tv_nsec * 1e-9 + watchdog->seconds;
    deadline.tv_sec += (time_t)floor(end);
    deadline.tv_nsec = (long)((end - floor(end)) * 1e9);

    int error = 0;
    pthread_mutex_lock(&watchdog->mutex);
    while (!watchdog->stopped && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&watchdog->changed, &watchdog->mutex, &deadline);
    CHECK(watchdog->stopped, "%s did not end within %g s: %s", watchdog->call, watchdog->seconds,
          watchdog->remedy);
    pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

void watchdog_start(Watchdog *watchdog, double seconds, const char *call, const char *remedy)
{
    *watchdog = (Watchdog){ .seconds = seconds, .call = call, .remedy = remedy };
    pthread_mutex_init(&watchdog->mutex, NULL);
    pthread_condattr_t monotonic; // or a clock that is set would bite
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const int error = thread_start(&watchdog->thread, watch, watchdog);
    CHECK(error == 0, "cannot start a thread that watches the time: %s", strerror(error));
}

void watchdog_stop(Watchdog *watchdog)
{
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->stopped = true;
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->mutex);
    pthread_join(watchdog->thread, NULL);
    pthread_cond_destroy(&watchdog->changed);
    pthread_mutex_destroy(&watchdog->mutex);
}
