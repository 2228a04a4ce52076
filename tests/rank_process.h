/* rank_process.h - ranks as processes of a test: what they do, how they end, what they say. */
#ifndef TESTS_RANK_PROCESS_H
#define TESTS_RANK_PROCESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*Body)(int rank, int port); // what a rank does

typedef struct {
    pid_t pid;
    FILE *said; // its standard error
} Rank;

static inline Rank start_rank(Body body, int rank, int port)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const Rank child = { fork(), fdopen(ends[0], "r") };
    if (child.pid == 0) {
        alarm(20);
        dup2(ends[1], STDERR_FILENO);
        body(rank, port);
        _exit(EXIT_SUCCESS);
    }
    close(ends[1]);
    return child;
}

/* Waits for its end. Its words, up to the last line, are in `said`. */
static inline int end_rank(const Rank *rank, char *said, size_t bytes)
{
    const size_t length = fread(said, 1, bytes - 1, rank->said);
    said[length] = '\0';
    fclose(rank->said);
    int status = 0;
    assert_int_equal(waitpid(rank->pid, &status, 0), rank->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void expect_success(Body body, int rank, int port)
{
    char said[512];
    const Rank child = start_rank(body, rank, port);
    if (end_rank(&child, said, sizeof said) != EXIT_SUCCESS)
        fail_msg("rank %d failed: %s", rank, said);
}

/* The line a rank dies with; %d in it stands for the port. */
static inline void expect_death(Body body, int port, const char *format)
{
    char said[512], line[512];
    const Rank child = start_rank(body, 0, port);
    assert_int_equal(end_rank(&child, said, sizeof said), EXIT_FAILURE);
    snprintf(line, sizeof line, format, port);
    if (strstr(said, line) == NULL)
        fail_msg("\"%s\" instead of \"%s\"", said, line);
}

#endif
