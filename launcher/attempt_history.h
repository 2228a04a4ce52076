/* attempt_history.h - how the earlier attempts of a job ended. */
#ifndef LAUNCHER_ATTEMPT_HISTORY_H
#define LAUNCHER_ATTEMPT_HISTORY_H

#include "launcher/launch.h"

/* How earlier attempts ended, a line each. All zero is empty. */
typedef struct {
    char *text;
} History;

/* Records and prints that an attempt has ended and another follows; root is NULL if new nodes have
 * arrived. first_rank is the first of these workers' ranks. */
void history_add(History *history, int attempt, const Failure *root, const Workers *workers,
                 int first_rank);
void history_print(const History *history); // called after the last attempt
void history_free(History *history);

#endif
