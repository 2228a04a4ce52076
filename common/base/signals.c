/* A thread inherits its creator's signal mask, so all signals are blocked while it is created. */
#include "common/base/signals.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "common/base/log.h"

#define STOPPED_SECONDS 1.0 // gap between two readings that a busy machine does not cause

/* In glibc since 2.32, not in musl. (strsignal returns "Terminated" in the user's language.) */
const char *sigabbrev_np(int signal) __attribute__((weak));

const char *signal_name(int signal)
{
    static char name[32];
    const char *letters = sigabbrev_np != NULL ? sigabbrev_np(signal) : NULL;
    if (letters != NULL)
        snprintf(name, sizeof name, "SIG%s", letters);
    else
        snprintf(name, sizeof name, "signal %d", signal);
    return name;
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static _Atomic double looked_at, absent; // time of the latest reading; seconds in the gaps so far

/* Reads the time under the mutex, so that the next reading notices a stop of the process here. */
double seconds_awake(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    const double now = seconds_now(), gap = now - looked_at;
    if (gap > STOPPED_SECONDS && looked_at > 0)
        absent = absent + gap - AWAKE_LOOK_SECONDS; // += needs libatomic
    looked_at = now; // set after absent, for the function below
    const double awake = now - absent;
    pthread_mutex_unlock(&mutex);
    return awake;
}

static double seconds_at_tick(void)
{
    struct timespec tick;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
    return (double)tick.tv_sec + 1e-9 * (double)tick.tv_nsec;
}

/* Reads the time last, for the same reason. */
double seconds_awake_at_tick(void)
{
    const double latest = looked_at, away = absent, now = seconds_at_tick();
    return now < latest + STOPPED_SECONDS / 2 ? now - away : seconds_awake();
}

int poll_awake(struct pollfd *polled, nfds_t count, double seconds)
{
    const double end = seconds_awake() + seconds;
    for (;;) {
        const double left = end - seconds_awake(), look = fmin(fmax(left, 0), AWAKE_LOOK_SECONDS);
        const struct timespec time = { .tv_nsec = (long)(1e9 * look) };
        const int ready = ppoll(polled, count, &time, NULL);
        if (ready != 0 || left <= 0)
            return ready;
    }
}
