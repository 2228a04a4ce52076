/* A thread inherits the mask of its starter: so all signals are blocked for that moment. */
#include "common/base/signals.h"

#include <signal.h>
#include <stdio.h>

/* glibc has it since 2.32, musl does not. (strsignal says "Terminated" in the user's language.) */
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
