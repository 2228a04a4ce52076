/*
 * Recursive halving and doubling (Rabenseifner, "Optimization of collective reduction operations",
 * 2004): the all-reduce of --reduce-order fixed.
 *
 * The ranks add up as a tree: rank r and r + n/2, then r + n/4 of those sums, down to r + 1. In
 * each step a rank sends its partner one half of what it has and adds up the other, so no byte is
 * added twice; at the end it has 1/n of the array, complete. Then the reverse: partners swap what
 * they have, which doubles. A rank sends 2 (n - 1) / n of the array as in the ring, in 2 log2(n)
 * steps.
 *
 * In the ring each block of the array is summed in another order, which depends on the number of
 * ranks and on block bounds. Here every number is summed by the same tree, however gradients are
 * cut into buckets; and what 8 ranks sum from r and r + 4 is what 4 ranks already have on rank r.
 */
#include "common/comm/reduce_ops.h"
#include "common/comm/tcp/tcp_collectives.h"
#include "common/comm/tcp/tcp_exchange.h"

/* A rank's share of the array at some level: elements [begin, end). */
typedef struct {
    size_t begin, end;
} Range;

/* The upper or the lower half. */
static Range half_of(Range whole, bool upper)
{
    const size_t middle = whole.begin + (whole.end - whole.begin) / 2;
    return upper ? (Range){ middle, whole.end } : (Range){ whole.begin, middle };
}

void halving_all_reduce(Mesh *mesh, const Collective *collective)
{
    const int n = mesh->pg->world_size, rank = mesh->pg->rank;
    const size_t size = dtype_size(collective->type);
    char *data = collective->out;
    Range whole[sizeof(int) * 8]; // before each step down
    int depth = 0;
    Range own = { 0, collective->count };

    for (int distance = n / 2; distance > 0; distance /= 2) {
        const bool upper = (rank & distance) != 0;
        const Range keep = half_of(own, upper), give = half_of(own, !upper);
        exchange(mesh, &(Exchange){ .to = rank ^ distance,
                                    .out = data + give.begin * size,
                                    .out_bytes = (give.end - give.begin) * size,
                                    .from = rank ^ distance,
                                    .in = data + keep.begin * size,
                                    .in_bytes = (keep.end - keep.begin) * size,
                                    .addend = data + keep.begin * size });
        whole[depth++] = own;
        own = keep;
    }

    reduce_finish(data + own.begin * size, own.end - own.begin, collective->type, collective->op,
                  mesh->pg->mean_ranks);

    for (int distance = 1; distance < n; distance *= 2) {
        const Range before = whole[--depth];
        const Range theirs = half_of(before, (rank & distance) == 0);
        exchange(mesh, &(Exchange){ .to = rank ^ distance,
                                    .out = data + own.begin * size,
                                    .out_bytes = (own.end - own.begin) * size,
                                    .from = rank ^ distance,
                                    .in = data + theirs.begin * size,
                                    .in_bytes = (theirs.end - theirs.begin) * size });
        own = before;
    }
}
