/*
 * collectives.h - how long collectives take, by size: one loop, for our backends (collectives.c)
 * and for MPI as it is (collectives_mpi.c). collectives_gloo.py does the same in Python.
 *
 * As in nccl-tests, calls follow one another, since a barrier before each would be part of what is
 * measured. After two calls, batches of as many as fit into BATCH_SECONDS are timed, until in
 * NUM_BATCHES of them no thread of any rank has waited for a core, or MOST_BATCHES are done. A
 * batch takes as long as its slowest rank, and the result is the median, per call, of those without
 * such a wait; of all, if there are fewer than FEW_BATCHES. Sizes are those of the longer array;
 * all_reduce and broadcast work in place, all_gather does not.
 */
#ifndef BENCH_COLLECTIVES_H
#define BENCH_COLLECTIVES_H

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/median.h"
#include "common/base/log.h"
#include "common/base/memory.h"

#define LARGEST_BYTES ((size_t)64 << 20)
#define BATCH_SECONDS 0.0003
enum { NUM_BATCHES = 25, FEW_BATCHES = 5, MOST_BATCHES = 200, MOST_CALLS = 2000 };
enum { NUM_OPERATIONS = 3 };
#define MOST_SECONDS 0.3 // for a size, from the first batch to the last

typedef struct {
    const char *name; // as printed
    /* Takes float32 arrays of `count` elements; all_gather's `in` is this rank's share of `out`. */
    void (*call)(void *group, const float *in, float *out, size_t count);
} Operation;

typedef struct {
    int rank, world_size;
    void *group; // handed to all calls
    void (*barrier)(void *group);
    double (*largest)(void *group, double seconds); // maximum over all ranks
    Operation operations[NUM_OPERATIONS];
} Collectives;

/* Returns how long the threads of this process have been ready to run without a core so far. */
static inline double seconds_without_core(void)
{
    glob_t tasks;
    unsigned long long sum = 0, ran, waited;
    if (glob("/proc/self/task/*/schedstat", GLOB_NOSORT, NULL, &tasks) != 0)
        return 0;
    for (size_t i = 0; i < tasks.gl_pathc; i++) {
        FILE *file = fopen(tasks.gl_pathv[i], "r");
        if (file != NULL && fscanf(file, "%llu %llu", &ran, &waited) == 2)
            sum += waited;
        if (file != NULL)
            fclose(file);
    }
    globfree(&tasks);
    return 1e-9 * (double)sum;
}

/* A batch of calls, as the slowest of all ranks sees it. */
typedef struct {
    double seconds, without_core; // by call; in all
} Batch;

static inline Batch batch_run(const Collectives *c, const Operation *operation, const float *in,
                              float *out, size_t count, int calls)
{
    const double before = seconds_without_core();
    c->barrier(c->group);
    const double begin = seconds_now();
    for (int i = 0; i < calls; i++)
        operation->call(c->group, in, out, count);
    const double seconds = c->largest(c->group, seconds_now() - begin) / calls;
    return (Batch){ seconds, c->largest(c->group, seconds_without_core() - before) };
}

/* Returns the seconds of a call; every rank does the same batches, because all know each result. */
static inline double call_seconds(const Collectives *c, const Operation *operation, const float *in,
                                  float *out, size_t count)
{
    batch_run(c, operation, in, out, count, 1);
    const double fit = BATCH_SECONDS / batch_run(c, operation, in, out, count, 1).seconds;
    const int calls = fit > MOST_CALLS ? MOST_CALLS : fit < 1 ? 1 : (int)fit;
    double all[MOST_BATCHES], clean[NUM_BATCHES], spent = 0;
    int num_all = 0, num_clean = 0;
    while (num_clean < NUM_BATCHES && num_all < MOST_BATCHES &&
           (spent < MOST_SECONDS || num_all < FEW_BATCHES)) {
        const Batch batch = batch_run(c, operation, in, out, count, calls);
        all[num_all++] = batch.seconds;
        if (batch.without_core == 0)
            clean[num_clean++] = batch.seconds;
        spent += batch.seconds * calls;
    }
    return num_clean >= FEW_BATCHES ? median(clean, num_clean) : median(all, num_all);
}

/* Prints a line for bench/suite.py from rank 0 for each size, which grow by `factor`, or for `only`
 * bytes if that is not 0. */
static inline void measure_operation(const Collectives *c, const Operation *operation, int factor,
                                     size_t only)
{
    const size_t last = only != 0 ? only : LARGEST_BYTES;
    float *in = mem_calloc(last, 1), *out = mem_calloc(last, 1);
    memset(in, 0, last); // untouched memory may all map to one page
    memset(out, 0, last);
    for (size_t bytes = only != 0 ? only : sizeof *out; bytes <= last; bytes *= (size_t)factor) {
        const size_t count = bytes / sizeof *out;
        if (count < (size_t)c->world_size && strcmp(operation->name, "all_gather") == 0)
            continue; // a share would be less than one element
        const double seconds = call_seconds(c, operation, in, out, count);
        if (c->rank == 0)
            log_print("{\"case\": \"%s, %d ranks\", \"x\": %zu, \"value\": %.3f, \"unit\": \"us\"}",
                      operation->name, c->world_size, bytes, 1e6 * seconds);
    }
    free(in);
    free(out);
}

/* arguments: FACTOR OPERATION..., as in "4 all_reduce broadcast"; all_reduce=5000000 measures
 * that size alone. */
static inline void measure_collectives(const Collectives *c, int count, char **arguments)
{
    c->barrier(c->group); // all are connected, so the others notice at once if one ends below
    const int factor = count > 1 ? atoi(arguments[0]) : 0;
    CHECK(factor > 1, "what is to be measured is missing: FACTOR OPERATION..., as in 4 all_reduce");
    for (int i = 1; i < count; i++) {
        const Operation *operation = c->operations;
        const size_t length = strcspn(arguments[i], "=");
        while (operation < c->operations + NUM_OPERATIONS &&
               (strlen(operation->name) != length ||
                strncmp(operation->name, arguments[i], length) != 0))
            operation++;
        CHECK(operation < c->operations + NUM_OPERATIONS,
              "%s: it is all_reduce, broadcast or all_gather", arguments[i]);
        const bool is_sized = arguments[i][length] == '=';
        const long long only = is_sized ? atoll(arguments[i] + length + 1) : 0;
        CHECK(!is_sized || (only >= (long long)sizeof(float) && only <= (long long)LARGEST_BYTES),
              "%s: a size is 4 to %zu bytes", arguments[i], LARGEST_BYTES);
        measure_operation(c, operation, factor, (size_t)only);
    }
}

#endif
