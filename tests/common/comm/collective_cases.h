/* collective_cases.h - the cases that every backend must pass, run inside a group. */
#ifndef TESTS_COMMON_COMM_COLLECTIVE_CASES_H
#define TESTS_COMMON_COMM_COLLECTIVE_CASES_H

#include "common/comm/process_group.h"

/* Runs every collective with every type, operation, root and size that could go wrong, and compares
 * it with a plain loop over all ranks' inputs, which every rank knows; then runs the two below.
 * All ranks of pg must call it, up to 5 of them (beyond, sums are no longer exact in every type);
 * dies with a line that names the case. */
void collective_cases_run(ProcessGroup *pg);

/* Checks results that no type holds exactly. */
void collective_rounding_run(ProcessGroup *pg);

/* Checks many calls in flight at once, messages between each two ranks, and the barrier. */
void collective_order_run(ProcessGroup *pg);

#endif
