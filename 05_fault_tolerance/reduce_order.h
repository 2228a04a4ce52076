/* reduce_order.h - which runs --reduce-order fixed is for. */
#ifndef FAULT_TOLERANCE_REDUCE_ORDER_H
#define FAULT_TOLERANCE_REDUCE_ORDER_H

#include "common/base/args.h"

/* Usage error unless the ranks can share the 8 shards of --reduce-order fixed (args_shards), and
 * the batch is cut into shards of one size. Local. */
void reduce_order_check(const Args *args, int world_size);

#endif
