/* reduce_order.h - --reduce-order fixed: the same sums, bit for bit, on 1, 2, 4 and 8 ranks. */
#ifndef FAULT_TOLERANCE_REDUCE_ORDER_H
#define FAULT_TOLERANCE_REDUCE_ORDER_H

#include "common/comm/process_group.h"

/* Dies with a usage error unless the ranks can share the 8 shards of --reduce-order fixed
 * (args_shards), and the batch is cut into shards of one size. Local. */
void reduce_order_check(const Args *args, int world_size);

/* Makes all_reduce on pg add in a fixed order from now on, with --reduce-order fixed: the order of
 * a tree, the same for any number of ranks. Subgroups are not affected. Call it on all ranks, after
 * process_group_init. Local. */
void reduce_order_set(const Args *args, ProcessGroup *pg);

#endif
