/* check_sync.h - checks that the replicas are still the same, by hashes of all ranks' states. */
#ifndef FAULT_TOLERANCE_CHECK_SYNC_H
#define FAULT_TOLERANCE_CHECK_SYNC_H

#include "common/comm/process_group.h"
#include "common/nn/optim.h"

/* Compares all parameters and the optimizer's state over the ranks after every args->check_sync-th
 * step (0: never). A difference goes unnoticed with a probability of 2^-53. If they differ, every
 * rank leaves the group and dies with a line that names the first such tensor, the step, and the
 * ranks that differ from the majority. PyTorch compares only shapes, once, when DDP starts.
 * Collective. */
void check_sync(const Args *args, ProcessGroup *pg, const Optimizer *optim);

#endif
