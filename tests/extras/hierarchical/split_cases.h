/* split_cases.h - groups within a group, as cases that run with data on CPUs and on GPUs. */
#ifndef TESTS_EXTRAS_HIERARCHICAL_SPLIT_CASES_H
#define TESTS_EXTRAS_HIERARCHICAL_SPLIT_CASES_H

#include "common/comm/process_group.h"

/* Splits pg in several ways and checks the members and the results of subgroups and group at the
 * same time. All ranks must call it; dies with a line that names the case. */
void split_cases_run(ProcessGroup *pg);

#endif
