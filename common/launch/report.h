/* report.h - the report on a failed job. */
#ifndef COMMON_LAUNCH_REPORT_H
#define COMMON_LAUNCH_REPORT_H

#include "common/launch/failure.h"

/* To standard error: the failure that ended the job, then how this node's other ranks ended. One
 * line if the workers are not to blame. */
void report_print(const Failure *root, const Flags *flags, const Workers *workers, int first_rank);

/* How earlier attempts ended, a line each. All zero is empty. */
typedef struct {
    char *text;
} History;

/* Records and prints that an attempt has ended and another follows; root NULL: because nodes have
 * come. */
void history_add(History *history, int attempt, const Failure *root);
void history_print(const History *history); // after the last attempt
void history_free(History *history);

#endif
