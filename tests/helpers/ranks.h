/* ranks.h - for tests: ranks as children of the test program, and a store for their rendezvous. */
#ifndef TESTS_HELPERS_RANKS_H
#define TESTS_HELPERS_RANKS_H

#include "common/comm/process_group.h"

#define MAX_RANKS 64
#define AT_ONCE 150.0 // seconds; far below the timeout of 300, but enough on busy machines

/* A child's input. */
typedef struct {
    int rank, world_size;
    Store store; // connected
    Args args; // backend tcp, timeout 300 s; a test may change them before it forms a group
    void *context; // the test's own, as in the parent when the child was forked
} Rank;

/* A child's result. */
typedef struct {
    int status; // exit status, 128 + the signal that ended or stopped it (-1 if it was killed)
    double seconds; // until it ended
    char errors[8192]; // what it wrote to standard error
} RankEnd;

/* Runs body in world_size children; one that returns ends with status 0. Children still there after
 * a quarter of an hour, and stopped ones as soon as all others have ended, are killed. */
void ranks_run(int world_size, void (*body)(Rank *rank), void *context, RankEnd end[MAX_RANKS]);

/* Like ranks_run, but fails the test and shows the errors unless all ranks succeed. */
void ranks_run_well(int world_size, void (*body)(Rank *rank), void *context);

/* Like ranks_run for bodies that only a timeout ends, after `seconds`: all ranks that were neither
 * stopped nor killed must report text. A machine that stalls for as long makes healthy ranks look
 * lost, so the run is repeated with more time. Returns the timeout of the last run. */
double ranks_run_into_timeout(int world_size, double seconds, void (*body)(Rank *rank),
                              void *context, const char *text, RankEnd end[MAX_RANKS]);

/* Fails the test unless this rank has soon ended with status 1 and this text in its errors. */
void expect_error(const RankEnd *end, int rank, const char *text);
void expect_error_at_once(const RankEnd *end, int rank, const char *text);

/* Calls process_group_init_store with the members of rank. */
void rank_join(Rank *rank, ProcessGroup *pg);

#endif
