/* rank_process.h - ranks as child processes of a test: their body, status and error output. */
#ifndef TESTS_HELPERS_RANK_PROCESS_H
#define TESTS_HELPERS_RANK_PROCESS_H

#include <stdbool.h>

#include "tests/helpers/child.h"

#define LINE_BYTES 512

typedef void RankBody(int rank, int port); // a rank's code

typedef struct {
    RankBody *body;
    int rank, port;
} Task;

typedef struct {
    pid_t pid;
    FILE *err_file; // its standard error
} Rank;

static inline void run_task(const void *context)
{
    const Task *task = context;
    task->body(task->rank, task->port);
}

static inline Rank start_rank(RankBody *body, int rank, int port)
{
    const Task task = { body, rank, port };
    FILE *err_file = tmpfile();
    return (Rank){ child_start(run_task, &task, STDOUT_FILENO, fileno(err_file)), err_file };
}

/* Waits for a rank's end and leaves its standard error in err. */
static inline int end_rank(const Rank *rank)
{
    const int status = child_wait(rank->pid);
    read_back(rank->err_file, err);
    return status;
}

static inline void expect_success(RankBody *body, int rank, int port)
{
    const Rank child = start_rank(body, rank, port);
    if (end_rank(&child) != EXIT_SUCCESS)
        fail_msg("rank %d failed: %s", rank, err);
}

static double brief; // seconds, for ranks whose waits should time out

/* Returns true if this child, rank 0, dies with this line, in which %d is the port, and %g after it
 * brief. */
static inline bool dies_with(const Rank *child, int port, const char *format, char line[LINE_BYTES])
{
    const int status = end_rank(child);
    snprintf(line, LINE_BYTES, format, port, brief);
    return status == EXIT_FAILURE && strstr(err, line) != NULL;
}

/* Asserts the line a rank dies with, as above. A rank delayed for as long as brief may die in
 * another way, so it is retried with a longer one. */
static inline void expect_death(RankBody *body, int port, const char *format)
{
    char line[LINE_BYTES];
    bool dies = false;
    for (brief = 0.3; !dies && brief < 60; brief *= 10) {
        const Rank child = start_rank(body, 0, port);
        dies = dies_with(&child, port, format, line);
    }
    if (!dies)
        fail_msg("\"%s\" instead of \"%s\"", err, line);
}

#endif
