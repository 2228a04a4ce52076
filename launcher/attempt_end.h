/* attempt_end.h - what follows the end of an attempt: another one, or the end of the job. */
#ifndef LAUNCHER_ATTEMPT_END_H
#define LAUNCHER_ATTEMPT_END_H

#include "launcher/elastic_group.h"

#define AGAIN (-1) // the attempt has ended, but not the job

/* Returns the job's status, or AGAIN, the same on all nodes, and prints why the attempt ended.
 * `replaces`: whether new processes take the places of ranks that end, without a restart. */
int attempt_conclude(Group *group, Agents *agents, const Workers *workers, const Logs *logs,
                     Verdict verdict, bool replaces);

#endif
