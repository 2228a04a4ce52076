/* child.h - runs a part of a test in a child process, and returns its status and output. */
#ifndef TESTS_HELPERS_CHILD_H
#define TESTS_HELPERS_CHILD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/helpers/unit.h"

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

enum { OUTPUT_BYTES = 32768 };

static char out[OUTPUT_BYTES], err[OUTPUT_BYTES]; // what the latest child wrote

typedef void Body(const void *context);

static inline pid_t child_start(Body *body, const void *context, int out_fd, int err_fd)
{
    fflush(NULL); // otherwise the child would write it a second time
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        unit_leave();
        alarm(600); // nothing here may hang
        dup2(out_fd, STDOUT_FILENO);
        dup2(err_fd, STDERR_FILENO);
        body(context);
        fflush(NULL);
        _exit(0);
    }
    return pid;
}

/* Waits for a child; returns its exit status, or 128 + the signal that killed it. */
static inline int child_wait(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void read_back(FILE *file, char *text)
{
    rewind(file);
    text[fread(text, 1, OUTPUT_BYTES - 1, file)] = '\0';
    fclose(file);
}

/* Runs body with its output in files, and returns its status, which is 0 where body returns. */
static inline int child_run(Body *body, const void *context)
{
    FILE *files[] = { tmpfile(), tmpfile() };
    const int status = child_wait(child_start(body, context, fileno(files[0]), fileno(files[1])));
    read_back(files[0], out);
    read_back(files[1], err);
    return status;
}

static inline void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

/* Fails unless body ends its process with that status, after one line on standard error that
 * contains all these words (the last is NULL). */
static inline void assert_dies(Body *body, const void *context, int status,
                               const char *const words[])
{
    const int ended = child_run(body, context);
    if (ended != status)
        fail_msg("ended with %d, not %d, saying: %s", ended, status, err);
    const char *line_end = strchr(err, '\n');
    if (line_end == NULL || line_end[1] != '\0')
        fail_msg("said not one line but: %s", err);
    for (; *words != NULL; words++)
        if (strstr(err, *words) == NULL)
            fail_msg("did not say \"%s\" but: %s", *words, err);
}

/* Runs body with 0, 1, 2 ... as its context until it returns, because that is enough (of memory, in
 * leaves.h). With less it must end with status 1 and one line that has this word. */
static inline void assert_dies_until_enough(Body *body, const char *word)
{
    int number = 0;
    for (int status; (status = child_run(body, &number)) != 0; number++)
        if (number == 1000 || status != 1 || strstr(err, word) == NULL ||
            strchr(err, '\n')[1] != '\0')
            fail_msg("with %d ended with %d, saying: %s", number, status, err);
    assert_true(number > 0);
}

/* assert_dies_saying(body, context, status, word, ...) */
#define assert_dies_saying(body, context, status, ...) \
    assert_dies(body, context, status, (const char *const[]){ __VA_ARGS__, NULL })

#endif
