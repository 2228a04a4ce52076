/* dies.h - for tests of functions that are to end the process: they run in a child. */
#ifndef TESTS_DIES_H
#define TESTS_DIES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Calls body(argument) in a child, which has ten seconds. Returns its exit status, minus the signal
 * that killed it, or 0 where body returned; said gets what it wrote to standard error. */
static inline int run_in_child(void (*body)(void *), void *argument, char *said, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL); // or the child would write it a second time
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(10);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body(argument);
        _exit(0);
    }

    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; length + 1 < size; length += (size_t)n)
        if ((n = read(ends[0], said + length, size - 1 - length)) <= 0)
            break;
    said[length] = '\0';
    close(ends[0]);

    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Fails unless body(argument) ends its process with that status, after one line that contains all
 * these words (the last is NULL). */
static inline void assert_dies(void (*body)(void *), void *argument, int status,
                               const char *const words[])
{
    char said[8192];
    const int ended = run_in_child(body, argument, said, sizeof said);
    if (ended != status)
        fail_msg("ended with %d, not %d, saying: %s", ended, status, said);
    const char *line_end = strchr(said, '\n');
    if (line_end == NULL || line_end[1] != '\0')
        fail_msg("said not one line but: %s", said);
    for (; *words != NULL; words++)
        if (strstr(said, *words) == NULL)
            fail_msg("did not say \"%s\" but: %s", *words, said);
}

/* assert_dies_saying(body, argument, status, word, ...) */
#define assert_dies_saying(body, argument, status, ...) \
    assert_dies(body, argument, status, (const char *const[]){ __VA_ARGS__, NULL })

#endif
