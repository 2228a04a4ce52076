/* report.h - what people read when a job has failed. */
#ifndef COMMON_LAUNCH_REPORT_H
#define COMMON_LAUNCH_REPORT_H

#include "common/launch/failure.h"

/* To standard error: the failure that ended the job, then how this node's other ranks ended. One
 * line where the workers are not to blame. */
void report_print(const Failure *root, const Flags *flags, const Workers *workers, int first_rank);

/* How the attempts before ended, a line each. All zero is none. */
typedef struct {
    char *text;
    size_t bytes;
} History;

/* Takes note, and tells, that an attempt has ended and another one follows; root NULL: for nodes
 * that have come. */
void history_add(History *history, int attempt, const Failure *root);
void history_print(const History *history); // when there is none to follow
void history_free(History *history);

#endif
