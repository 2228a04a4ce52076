/*
 * many_ranks.h - what each rank does while bench/many_ranks.py measures how a large job starts, the
 * same for our backend (many_ranks.c) and for MPI's own calls (many_ranks_mpi.c).
 * many_ranks_gloo.py does the same in Python.
 *
 * A rank forms the group, completes an all-reduce of four bytes, and writes FOLDER/rankN.started:
 * its process and three times of CLOCK_MONOTONIC, which is the same for all processes. It waits
 * while its connections are counted, times all-reduces of BYTES and of SHORT_BYTES, writes both
 * medians to FOLDER/rankN.done, and waits again. To wait is to open a FIFO that has no writer yet.
 */
#ifndef BENCH_MANY_RANKS_H
#define BENCH_MANY_RANKS_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/median.h"
#include "common/base/log.h"
#include "common/base/memory.h"

/* Few enough that the number of messages takes most of the time; up to 16 ranks too many for
 * doubling. */
enum { SHORT_BYTES = 65536 };

typedef struct {
    int rank;
    double begun, formed; // when main began, and when this rank had formed the group
    void *group; // handed to all calls
    void (*all_reduce)(void *group, float *data, size_t count);
} ManyRanks;

static inline void many_ranks_wait(const char *folder, const char *gate)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, gate);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    SYS_CHECK(fd);
    close(fd);
}

/* Writes another file and renames it, so that a reader never finds half of the text. */
static inline void many_ranks_write(const char *folder, int rank, const char *what,
                                    const char *text)
{
    char path[4096], aside[sizeof path + 8];
    snprintf(path, sizeof path, "%s/rank%d.%s", folder, rank, what);
    snprintf(aside, sizeof aside, "%s.tmp", path);
    FILE *file = fopen(aside, "w");
    CHECK(file != NULL, "%s: %s", aside, strerror(errno));
    fputs(text, file);
    CHECK(fclose(file) == 0, "%s: %s", aside, strerror(errno));
    SYS_CHECK(rename(aside, path));
}

static inline double many_ranks_step(const ManyRanks *ranks, float *data, size_t bytes, int calls)
{
    double *seconds = mem_calloc((size_t)calls, sizeof *seconds);
    for (int call = -1; call < calls; call++) { // the first one warms up
        const double begin = seconds_now();
        ranks->all_reduce(ranks->group, data, bytes / sizeof *data);
        if (call >= 0)
            seconds[call] = seconds_now() - begin;
    }
    const double middle = median(seconds, calls);
    free(seconds);
    return middle;
}

/* arguments: FOLDER BYTES CALLS. */
static inline void many_ranks_run(const ManyRanks *ranks, char **arguments)
{
    const long long bytes = atoll(arguments[1]);
    const int calls = atoi(arguments[2]);
    CHECK(bytes >= SHORT_BYTES, "%s bytes: at least %d", arguments[1], SHORT_BYTES);
    CHECK(calls > 0, "%s calls: it is a number from 1 on", arguments[2]);
    float *data = mem_calloc((size_t)bytes, 1);
    ranks->all_reduce(ranks->group, data, 1);
    char text[128];
    snprintf(text, sizeof text, "%d %.6f %.6f %.6f\n", getpid(), ranks->begun, ranks->formed,
             seconds_now());
    many_ranks_write(arguments[0], ranks->rank, "started", text);
    many_ranks_wait(arguments[0], "steps");

    const double step = many_ranks_step(ranks, data, (size_t)bytes, calls);
    const double short_step = many_ranks_step(ranks, data, SHORT_BYTES, calls);
    snprintf(text, sizeof text, "%.6f %.6f\n", step, short_step);
    free(data);
    many_ranks_write(arguments[0], ranks->rank, "done", text);
    many_ranks_wait(arguments[0], "end");
}

#endif
