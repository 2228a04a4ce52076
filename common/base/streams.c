/*
 * The standard streams may be anything: a full disk, a terminal, or nothing at all. open() returns
 * the lowest free number, so in a program started with its output closed, the next file or socket
 * would become "standard output". A closed stream is opened in the wrong mode instead, so that
 * using it fails.
 */
#include "common/base/streams.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"

void streams_guard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            SYS_CHECK(open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY)); // takes fd
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
}

void streams_exit(void)
{
    CHECK(fflush(stdout) == 0 && !ferror(stdout), CANNOT_PRINT, strerror(errno));
    exit(EXIT_SUCCESS);
}
