/* A thread inherits its creator's signal mask, so all signals are blocked while it is created. */
#include "common/base/signals.h"

#include <signal.h>
#include <stdio.h>

/* In glibc since 2.32, not in musl. (strsignal says "Terminated" in the user's language.) */
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
