/* ranks.h - for tests: ranks as children of the test program, and a store to meet in. */
#ifndef TESTS_HELPERS_RANKS_H
#define TESTS_HELPERS_RANKS_H

#include "common/comm/process_group.h"

#define MAX_RANKS 64
#define AT_ONCE 150.0 // seconds: far from the timeout of 300, and busy machines are slow

/* What a child is given. */
typedef struct {
    int rank, world_size;
    Store store; // connected
    Args args; // backend tcp, timeout 300 s; a test may change them before it forms a group
    void *context; // the test's own, as in the parent when the child was forked
} Rank;

/* What is known of it afterwards. */
typedef struct {
    int status; // exit status, 128 + the signal that ended or stopped it, or -1: had to be killed
    double seconds; // until it ended
    char errors[8192]; // what it wrote to standard error
} RankEnd;

/* Runs body in world_size children; one that returns ends with status 0. Children still there after
 * a quarter of an hour, and stopped ones as soon as all others have ended, are killed. */
void ranks_run(int world_size, void (*body)(Rank *rank), void *context, RankEnd end[MAX_RANKS]);

/* The same for bodies that are expected to do well: fails the test, showing the errors, if not. */
void ranks_run_well(int world_size, void (*body)(Rank *rank), void *context);

/* The same for bodies that only a timeout ends, after `seconds`: all ranks that have not stopped
 * and were not killed must say text. On a machine that stands still for as long, ranks look lost
 * that are not: then again, with more time. Returns the timeout of the last run. */
double ranks_run_into_timeout(int world_size, double seconds, void (*body)(Rank *rank),
                              void *context, const char *text, RankEnd end[MAX_RANKS]);

/* Fails the test unless this rank has ended with status 1 and this text in its errors; and soon. */
void expect_error(const RankEnd *end, int rank, const char *text);
void expect_error_at_once(const RankEnd *end, int rank, const char *text);

/* process_group_init_store with what is in rank. */
void rank_join(Rank *rank, ProcessGroup *pg);

#endif
