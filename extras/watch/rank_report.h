/* rank_report.h - which rank failed first and what it said, and how the node's other ranks ended.
 */
#ifndef WATCH_RANK_REPORT_H
#define WATCH_RANK_REPORT_H

#include "common/launch/launch.h"

/* Prints to standard error the failure that ended the job, then how this node's other ranks ended.
 */
void rank_report(const Failure *root, const Workers *workers, int first_rank);

#endif
