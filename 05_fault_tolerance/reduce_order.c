/* The shards of a batch must be whole, of one size, and the same number on each rank. */
#include "05_fault_tolerance/reduce_order.h"

#include "common/base/log.h"

void reduce_order_check(const Args *args, int world_size)
{
    if (args_shards(args) == 0)
        return;
    if (NUM_SHARDS % world_size != 0)
        usage_error("--reduce-order fixed is for 1, 2, 4 or 8 ranks, not for %d", world_size);
    const bool global = args->global_batch_size > 0;
    const int size = global ? args->global_batch_size : args->batch_size;
    const int shards = global ? NUM_SHARDS : NUM_SHARDS / world_size;
    if (size % shards != 0)
        usage_error("--reduce-order fixed cuts the batch of %d rank%s into 8 parts: use a multiple "
                    "of %d for --%s, not %d",
                    world_size, world_size == 1 ? "" : "s", shards,
                    global ? "global-batch-size" : "batch-size", size);
}
