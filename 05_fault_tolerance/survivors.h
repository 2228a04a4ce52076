/*
 * survivors.h - a group whose ranks survive the loss of others (tcp only).
 *
 * - process_group_open prepares it as process_group_init does, but waits for no rank.
 * - process_group_form forms it: at first, and again each time that it was left.
 * - Once a call fails the group is revoked: that call and all later ones return at once, on every
 *   rank, with undefined results. So ask process_group_revoked before you use a result.
 * - process_group_leave, and then process_group_form with the ranks that are there now.
 *
 * What MPI's ULFM calls revoke and shrink (Bland et al., IJHPCA 2013), and c10d reconfigure.
 */
#ifndef FAULT_TOLERANCE_SURVIVORS_H
#define FAULT_TOLERANCE_SURVIVORS_H

#include "common/comm/process_group.h"

/* Connects the ranks. `number` is the same on all ranks and higher than that of each earlier group,
 * so that a message of an earlier one is never taken for one of this. False: a rank did not come
 * within seconds. Collective. */
bool process_group_form(ProcessGroup *pg, const Args *args, int64_t number);

/* Has a call failed? Ask when all calls have been waited for. Local. */
bool process_group_revoked(const ProcessGroup *pg);

/* Closes the connections without a goodbye. Local. */
void process_group_leave(ProcessGroup *pg);

#endif
