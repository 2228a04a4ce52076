/* child.h - runs a piece of a test in a child process, and gives back what it wrote and its status.
 */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

enum { OUTPUT_BYTES = 32768 };

static char out[OUTPUT_BYTES], err[OUTPUT_BYTES]; // what the latest child wrote

typedef void Body(const void *context);

static pid_t child_start(Body *body, const void *context, int out_fd, int err_fd)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        dup2(out_fd, STDOUT_FILENO);
        dup2(err_fd, STDERR_FILENO);
        body(context);
        fflush(NULL);
        _exit(0);
    }
    return pid;
}

static int child_wait(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void read_back(FILE *file, char *text)
{
    rewind(file);
    text[fread(text, 1, OUTPUT_BYTES - 1, file)] = '\0';
    fclose(file);
}

/* Runs body with its output in files, and returns its exit status. */
static int child_run(Body *body, const void *context)
{
    FILE *files[] = { tmpfile(), tmpfile() };
    const int status = child_wait(child_start(body, context, fileno(files[0]), fileno(files[1])));
    read_back(files[0], out);
    read_back(files[1], err);
    return status;
}

#endif
