/* rank_process.h - ranks as processes of a test: what they do, how they end, what they say. */
#ifndef TESTS_HELPERS_RANK_PROCESS_H
#define TESTS_HELPERS_RANK_PROCESS_H

#include <stdbool.h>

#include "tests/helpers/child.h"

#define LINE_BYTES 512

typedef void RankBody(int rank, int port); // what a rank does

typedef struct {
    RankBody *body;
    int rank, port;
} Task;

typedef struct {
    pid_t pid;
    FILE *said; // its standard error
} Rank;

static inline void run_task(const void *context)
{
    const Task *task = context;
    task->body(task->rank, task->port);
}

static inline Rank start_rank(RankBody *body, int rank, int port)
{
    const Task task = { body, rank, port };
    FILE *said = tmpfile();
    return (Rank){ child_start(run_task, &task, STDOUT_FILENO, fileno(said)), said };
}

/* Waits for its end; its words are in err then. */
static inline int end_rank(const Rank *rank)
{
    const int status = child_wait(rank->pid);
    read_back(rank->said, err);
    return status;
}

static inline void expect_success(RankBody *body, int rank, int port)
{
    const Rank child = start_rank(body, rank, port);
    if (end_rank(&child) != EXIT_SUCCESS)
        fail_msg("rank %d failed: %s", rank, err);
}

static double brief; // seconds, for ranks that are to wait in vain

/* Does rank 0 die with this line? %d in it stands for the port, and %g after that for brief. */
static inline bool dies_with(RankBody *body, int port, const char *format, char line[LINE_BYTES])
{
    const Rank child = start_rank(body, 0, port);
    const int status = end_rank(&child);
    snprintf(line, LINE_BYTES, format, port, brief);
    return status == EXIT_FAILURE && strstr(err, line) != NULL;
}

/* The line a rank dies with, as above. One that is held up for as long as brief may die in another
 * way: then it is tried with more. */
static inline void expect_death(RankBody *body, int port, const char *format)
{
    char line[LINE_BYTES];
    bool dies = false;
    for (brief = 0.3; !dies && brief < 60; brief *= 10)
        dies = dies_with(body, port, format, line);
    if (!dies)
        fail_msg("\"%s\" instead of \"%s\"", err, line);
}

#endif
