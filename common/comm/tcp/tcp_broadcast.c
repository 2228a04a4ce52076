/*
 * Two algorithms to send one rank's data to all.
 *
 * The binomial tree doubles the number of ranks with the data in each step: log2(n) steps, the
 * fewest possible, but the root sends the whole message each time. In the chain every rank sends it
 * only once, to the next rank, in chunks, so that it forwards one while the next arrives: long
 * messages take hardly longer for many ranks than for two.
 */
#include "common/comm/tcp/tcp_collectives.h"
#include "common/comm/tcp/tcp_exchange.h"

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

static size_t chunk_bytes(size_t rest)
{
    return rest < CHUNK_BYTES ? rest : CHUNK_BYTES;
}

void chain_broadcast(Mesh *mesh, const Collective *collective)
{
    const int n = mesh->pg->world_size, rank = mesh->pg->rank;
    const int place = (rank - collective->root + n) % n;
    const int next = place == n - 1 ? NOBODY : (rank + 1) % n;
    const int previous = place == 0 ? NOBODY : (rank - 1 + n) % n;

    // While one chunk arrives, the previous one is forwarded. The root only sends.
    char *here = collective->out, *coming = here;
    size_t rest = collective->count * dtype_size(collective->type);
    size_t here_bytes = 0, coming_bytes = chunk_bytes(rest);
    do {
        exchange(mesh, &(Exchange){ .to = here_bytes > 0 ? next : NOBODY,
                                    .out = here,
                                    .out_bytes = here_bytes,
                                    .from = coming_bytes > 0 ? previous : NOBODY,
                                    .in = coming,
                                    .in_bytes = coming_bytes });
        here = coming;
        here_bytes = coming_bytes;
        coming += coming_bytes;
        rest -= coming_bytes;
        coming_bytes = chunk_bytes(rest);
    } while (here_bytes > 0);
}
