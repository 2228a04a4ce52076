/*
 * The shards of a batch must be whole, of one size, and the same number on each rank. Each rank
 * adds up those it has (nn/plain.c); here is the rest of the tree, between ranks.
 */
#include "05_fault_tolerance/checks/reduce_order.h"

#include "common/base/log.h"
#include "common/comm/tcp/tcp_mesh.h"

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

/* A rank's share of the array at some level: elements [begin, end). */
typedef struct {
    size_t begin, end;
} Range;

static size_t bytes_of(Range range, size_t element_bytes)
{
    return (range.end - range.begin) * element_bytes;
}

/* Returns the upper or the lower half. */
static Range half_of(Range whole, bool upper)
{
    const size_t middle = whole.begin + (whole.end - whole.begin) / 2;
    return upper ? (Range){ middle, whole.end } : (Range){ whole.begin, middle };
}

/* Does the all-reduce of --reduce-order fixed by recursive halving and doubling (Rabenseifner,
 * "Optimization of collective reduction operations", 2004).
 *
 * The ranks add up as a tree: rank r and r + n/2, then r + n/4 of those sums, down to r + 1. In
 * each step a rank sends its partner one half of what it has and adds up the other, so no byte is
 * added twice; at the end it has 1/n of the array, complete. Then the reverse: partners swap their
 * parts, which doubles them. A rank sends 2 (n - 1) / n of the array as in the ring, in 2 log2(n)
 * steps.
 *
 * In the ring each block of the array is summed in a different order, which depends on the number
 * of ranks and on block bounds. Here every number is summed by the same tree, however gradients are
 * cut into buckets; and the sum that 8 ranks form from r and r + 4 is the one that 4 ranks already
 * have on rank r.
 */
static void halving_all_reduce(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank;
    const size_t size = dtype_size(collective->type);
    char *data = collective->out;
    Range whole[sizeof(int) * 8]; // the ranges before each step down
    int depth = 0;
    Range own = { 0, collective->count };

    for (int distance = n / 2; distance > 0; distance /= 2) {
        const int other = rank ^ distance;
        const bool upper = (rank & distance) != 0;
        const Range keep = half_of(own, upper), give = half_of(own, !upper);
        char *kept = data + keep.begin * size;
        exchange(mesh, (Outgoing){ other, data + give.begin * size, bytes_of(give, size) },
                 (Incoming){ other, kept, bytes_of(keep, size), kept });
        whole[depth++] = own;
        own = keep;
    }

    reduce_finish(data + own.begin * size, own.end - own.begin, collective->type, collective->op,
                  collective->pg->mean_ranks);

    for (int distance = 1; distance < n; distance *= 2) {
        const int other = rank ^ distance;
        const Range before = whole[--depth];
        const Range theirs = half_of(before, (rank & distance) == 0);
        exchange(mesh, (Outgoing){ other, data + own.begin * size, bytes_of(own, size) },
                 (Incoming){ other, data + theirs.begin * size, bytes_of(theirs, size), NULL });
        own = before;
    }
}

void reduce_order_set(const Args *args, ProcessGroup *pg)
{
    if (args_shards(args) > 0)
        pg->tcp_all_reduce = halving_all_reduce;
}
