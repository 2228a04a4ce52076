/* ranks.h - for tests: ranks as children of the test program, and a store to meet in. */
#ifndef TESTS_RANKS_H
#define TESTS_RANKS_H

#include "common/dist/process_group.h"

#define MAX_RANKS 64
#define AT_ONCE 3.0 // seconds: far from the timeout of 20, and busy machines are slow

/* What a child is given. */
typedef struct {
    int rank, world_size;
    Store store; // connected
    Args args; // backend tcp, timeout 20 s; a test may change them before it forms a group
    void *context; // the test's own, as in the parent when the child was forked
} Rank;

/* What is known of it afterwards. */
typedef struct {
    int status; // exit status, 128 + signal, or -1 if it had to be killed
    double seconds; // until it ended
    char errors[8192]; // what it wrote to standard error
} RankEnd;

/* Runs body in world_size children; one that returns ends with status 0. Children still there after
 * `seconds`, and stopped ones as soon as all others have ended, are killed. */
void ranks_run(int world_size, double seconds, void (*body)(Rank *rank), void *context,
               RankEnd end[MAX_RANKS]);

/* The same for bodies that are expected to do well: fails the test, showing the errors, if not. */
void ranks_run_well(int world_size, double seconds, void (*body)(Rank *rank), void *context);

/* Fails the test unless this rank has ended with status 1 and this text in its errors; and soon. */
void expect_error(const RankEnd *end, int rank, const char *text);
void expect_error_at_once(const RankEnd *end, int rank, const char *text);

/* process_group_init_store with what is in rank. */
void rank_join(Rank *rank, ProcessGroup *pg);

#endif
