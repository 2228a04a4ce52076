/*
 * Two algorithms to send one rank's data to all.
 *
 * The binomial tree doubles the number of ranks with the data in each step: log2(n) steps, the
 * fewest possible, but the root sends the whole message each time. In the chain every rank sends it
 * only once, to the next rank, and forwards what has arrived while the rest is still arriving: long
 * messages take hardly longer for many ranks than for two.
 */
#include "common/dist/tcp_collectives.h"
#include "common/dist/tcp_exchange.h"

void tree_broadcast(Mesh *mesh, const Collective *collective)
{
    const int n = mesh->pg->world_size, root = collective->root;
    const size_t bytes = collective->count * dtype_size(collective->type);
    const int place = (mesh->pg->rank - root + n) % n; // counted from the root

    // The parent's number is ours without its lowest bit, the children's have one more below it.
    int bit = 1;
    while (bit < n && (place & bit) == 0)
        bit *= 2;
    if (place != 0)
        message_receive(mesh, (place - bit + root) % n, collective->out, bytes);
    while ((bit /= 2) > 0)
        if (place + bit < n)
            message_send(mesh, (place + bit + root) % n, collective->in, bytes);
}

void chain_broadcast(Mesh *mesh, const Collective *collective)
{
    const int n = mesh->pg->world_size, rank = mesh->pg->rank;
    const int place = (rank - collective->root + n) % n;
    const size_t bytes = collective->count * dtype_size(collective->type);
    const int next = place == n - 1 ? NOBODY : (rank + 1) % n;
    const int previous = place == 0 ? NOBODY : (rank - 1 + n) % n;

    exchange(mesh, &(Exchange){ .to = next,
                                .out = collective->out,
                                .out_bytes = bytes,
                                .from = previous,
                                .in = collective->out,
                                .in_bytes = bytes,
                                .forward = true });
}
