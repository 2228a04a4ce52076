/* split_cases.h - groups within a group, as cases that run on every backend. */
#ifndef TESTS_COMMON_COMM_SPLIT_CASES_H
#define TESTS_COMMON_COMM_SPLIT_CASES_H

#include "common/comm/process_group.h"

/* Cuts pg in several ways and compares who is with whom, and what parts and group calculate at the
 * same time. All ranks must call it; dies with a line that names the case. */
void split_cases_run(ProcessGroup *pg);

#endif
