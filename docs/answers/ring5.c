/*
 * The answer to lab-ring5: the ring of lab-ring, made of exchange.
 *
 * exchange sends and receives at the same time, so no rank has to be the first, and it adds what
 * arrives to this rank's numbers, so nothing is kept aside. common/comm/tcp/tcp_algorithms.c has
 * the library's own.
 */
#include "teach/lab/ring5/ring5.h"

typedef struct {
    char *data;
    size_t bytes;
} Part;

/* Part i of the array, for any i from -2 n on: the first parts have one element more. */
static Part part_of(const Collective *collective, int i)
{
    const size_t n = (size_t)collective->pg->world_size, part = ((size_t)i + 2 * n) % n;
    const size_t least = collective->count / n, rest = collective->count % n;
    const size_t begin = part * least + (part < rest ? part : rest);
    const size_t size = dtype_size(collective->type);
    return (Part){ (char *)collective->out + begin * size, (least + (part < rest)) * size };
}

void lab_ring(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank;
    const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
    for (int step = 0; step < n - 1; step++) {
        const Part out = part_of(collective, rank - step - 1);
        const Part in = part_of(collective, rank - step - 2);
        exchange(mesh, (Outgoing){ next, out.data, out.bytes },
                 (Incoming){ previous, in.data, in.bytes, in.data });
    }
    const Part own = part_of(collective, rank); // complete now
    reduce_finish(own.data, own.bytes / dtype_size(collective->type), collective->type,
                  collective->op, collective->pg->mean_ranks);
    for (int step = 0; step < n - 1; step++) {
        const Part out = part_of(collective, rank - step);
        const Part in = part_of(collective, rank - step - 1);
        exchange(mesh, (Outgoing){ next, out.data, out.bytes },
                 (Incoming){ previous, in.data, in.bytes, NULL });
    }
}
