/* check_sync.h - are the replicas still the same? Every rank's state, compared by its hash. */
#ifndef COMMON_FAULT_CHECK_SYNC_H
#define COMMON_FAULT_CHECK_SYNC_H

#include "common/dist/process_group.h"
#include "common/nn/optim.h"

/* After every args->check_sync-th step (0: never) compares all parameters and the optimizer's state
 * over the ranks, bit for bit but for a chance of 2^-53. Where they differ, every rank leaves the
 * group and dies with the line that names the first tensor, the step, and the ranks that are not as
 * most are. PyTorch compares shapes once, when DDP starts, and values never. Collective. */
void check_sync(const Args *args, ProcessGroup *pg, const Optimizer *optim);

#endif
