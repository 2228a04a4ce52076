/*
 * The C library's sigabbrev_np is younger than many systems, and not in every library; strsignal
 * says "Terminated" in the user's language, which is no use in a search.
 */
#include "common/base/signal_name.h"

#include <signal.h>
#include <stdio.h>

#define NAME(signal) [signal] = #signal

static const char *const names[] = {
    NAME(SIGHUP),  NAME(SIGINT),    NAME(SIGQUIT), NAME(SIGILL),  NAME(SIGTRAP), NAME(SIGABRT),
    NAME(SIGBUS),  NAME(SIGFPE),    NAME(SIGKILL), NAME(SIGUSR1), NAME(SIGSEGV), NAME(SIGUSR2),
    NAME(SIGPIPE), NAME(SIGALRM),   NAME(SIGTERM), NAME(SIGCHLD), NAME(SIGCONT), NAME(SIGSTOP),
    NAME(SIGTSTP), NAME(SIGTTIN),   NAME(SIGTTOU), NAME(SIGURG),  NAME(SIGXCPU), NAME(SIGXFSZ),
    NAME(SIGPROF), NAME(SIGVTALRM), NAME(SIGIO),   NAME(SIGPWR),  NAME(SIGSYS),
};

const char *signal_name(int signal)
{
    static char number[32];
    const int num_names = sizeof names / sizeof names[0];
    if (signal > 0 && signal < num_names && names[signal] != NULL)
        return names[signal];
    snprintf(number, sizeof number, "signal %d", signal);
    return number;
}
