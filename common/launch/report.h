/* report.h - what people read when a job has failed. */
#ifndef COMMON_LAUNCH_REPORT_H
#define COMMON_LAUNCH_REPORT_H

#include "common/launch/failure.h"

/* To standard error: the failure that ended the job, then how this node's other ranks ended. One
 * line where the workers are not to blame. */
void report_print(const Failure *root, const Flags *flags, const Workers *workers, int first_rank);

#endif
