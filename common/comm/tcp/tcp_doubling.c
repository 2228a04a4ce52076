/*
 * Recursive doubling (Thakur, Rabenseifner and Gropp, "Optimization of collective communication
 * operations in MPICH", 2005).
 *
 * In step k each rank swaps its sum with the rank whose number differs in bit k, and adds: after
 * log2(n) steps all have the total. The ring moves fewer bytes but takes 2 (n - 1) steps, and for
 * short messages steps are what costs. If n is no power of two, the ranks beyond the largest one
 * first send their numbers to a lower rank, and get the result at the end.
 */
#include "common/comm/reduce_ops.h"
#include "common/comm/tcp/tcp_collectives.h"
#include "common/comm/tcp/tcp_exchange.h"

/* Combines another rank's numbers with ours. Both sides put the lower rank's first, so they get the
 * same bits even if a op b is not b op a (the maximum of 0 and -0, or of NaNs). */
static void combine(const Mesh *mesh, const Collective *collective, int other, const void *theirs)
{
    const void *ours = collective->out;
    const bool first = mesh->pg->rank < other;
    reduce_elements(collective->out, first ? ours : theirs, first ? theirs : ours,
                    collective->count, collective->type, collective->op);
}

void doubling_all_reduce(Mesh *mesh, const Collective *collective)
{
    const int n = mesh->pg->world_size, rank = mesh->pg->rank;
    const size_t bytes = collective->count * dtype_size(collective->type);
    void *data = collective->out, *theirs = mesh_scratch(mesh, bytes);
    int power = 1;
    while (2 * power <= n)
        power *= 2;
    const int extra = rank < n - power ? rank + power : NOBODY; // beyond `power`, served by us

    if (rank >= power) {
        message_send(mesh, rank - power, data, bytes);
        message_receive(mesh, rank - power, data, bytes);
        return;
    }
    if (extra != NOBODY) {
        message_receive(mesh, extra, theirs, bytes);
        combine(mesh, collective, extra, theirs);
    }
    for (int bit = 1; bit < power; bit *= 2) {
        const int other = rank ^ bit;
        exchange(mesh, &(Exchange){ .to = other,
                                    .out = data,
                                    .out_bytes = bytes,
                                    .from = other,
                                    .in = theirs,
                                    .in_bytes = bytes });
        combine(mesh, collective, other, theirs);
    }
    reduce_finish(data, collective->count, collective->type, collective->op, mesh->pg->mean_ranks);
    if (extra != NOBODY)
        message_send(mesh, extra, data, bytes);
}
