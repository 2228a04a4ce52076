/* The other algorithms: for few steps rather than few bytes, or for one root. */
#include <string.h>

#include "common/comm/tcp/tcp_mesh.h"

static size_t bytes_of(const Collective *collective)
{
    return collective->count * dtype_size(collective->type);
}

/* Combines another rank's numbers with ours. Both sides put the lower rank's first, so they get the
 * same bits even if a op b is not b op a (the maximum of 0 and -0, or of NaNs). */
static void combine(const Collective *collective, int other, const void *theirs)
{
    const void *ours = collective->out;
    const bool first = collective->pg->rank < other;
    reduce_elements(collective->out, first ? ours : theirs, first ? theirs : ours,
                    collective->count, collective->type, collective->op);
}

/* Recursive doubling (Thakur, Rabenseifner and Gropp, "Optimization of collective communication
 * operations in MPICH", 2005). In step k each rank swaps its sum with the rank whose number differs
 * in bit k, and adds: after log2(n) steps all have the total. The ring moves fewer bytes but takes
 * 2 (n - 1) steps, and for short messages steps are what costs. If n is no power of two, the ranks
 * beyond the largest one first send their numbers to a lower rank, and get the result at the end.
 */
void doubling_all_reduce(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank;
    const size_t bytes = bytes_of(collective);
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
        combine(collective, extra, theirs);
    }
    for (int bit = 1; bit < power; bit *= 2) {
        const int other = rank ^ bit;
        exchange(mesh, (Outgoing){ other, data, bytes }, (Incoming){ other, theirs, bytes, NULL });
        combine(collective, other, theirs);
    }
    reduce_finish(data, collective->count, collective->type, collective->op,
                  collective->pg->mean_ranks);
    if (extra != NOBODY)
        message_send(mesh, extra, data, bytes);
}

/* The binomial tree doubles the number of ranks with the data in each step: log2(n) steps, the
 * fewest possible, but the root sends the whole message each time. */
void tree_broadcast(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, root = collective->root;
    const size_t bytes = bytes_of(collective);
    const int number = (collective->pg->rank - root + n) % n; // counted from the root

    // The parent's number is ours without its lowest bit, the children's have one more below it.
    int bit = 1;
    while (bit < n && (number & bit) == 0)
        bit *= 2;
    if (number != 0)
        message_receive(mesh, (number - bit + root) % n, collective->out, bytes);
    while ((bit /= 2) > 0)
        if (number + bit < n)
            message_send(mesh, (number + bit + root) % n, collective->in, bytes);
}

/* Every rank sends the message only once, to the next rank, in chunks, so that it forwards one
 * while the next arrives: long messages take hardly longer for many ranks than for two. */
void chain_broadcast(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank, root = collective->root;
    const int next = (rank + 1) % n == root ? NOBODY : (rank + 1) % n;
    const int previous = rank == root ? NOBODY : (rank - 1 + n) % n;
    const size_t bytes = bytes_of(collective);

    // While one chunk arrives, the one before it is forwarded. The root only sends.
    char *here = collective->out;
    size_t here_bytes = 0;
    for (size_t done = 0; done < bytes || here_bytes > 0;) {
        char *coming = (char *)collective->out + done;
        const size_t rest = bytes - done;
        const size_t coming_bytes = rest < CHUNK_BYTES ? rest : CHUNK_BYTES;
        exchange(mesh, (Outgoing){ here_bytes > 0 ? next : NOBODY, here, here_bytes },
                 (Incoming){ coming_bytes > 0 ? previous : NOBODY, coming, coming_bytes, NULL });
        here = coming;
        here_bytes = coming_bytes;
        done += coming_bytes;
    }
}

/* Reduce, gather and scatter: the root exchanges with one rank after the other. The simplest
 * algorithm, and good enough for the few bytes of a metric: training's own traffic uses the ring,
 * where no rank is special. */
void direct_collective(Mesh *mesh, const Collective *collective)
{
    const CollectiveKind kind = collective->kind;
    const int rank = collective->pg->rank, root = collective->root;
    const size_t bytes = bytes_of(collective);
    if (rank != root && kind == SCATTER)
        message_receive(mesh, root, collective->out, bytes);
    else if (rank != root)
        message_send(mesh, root, collective->in, bytes);

    for (int other = 0; rank == root && other < collective->pg->world_size; other++) {
        const char *in = (const char *)collective->in + (kind == SCATTER ? other * bytes : 0);
        char *out = (char *)collective->out + (kind == GATHER ? other * bytes : 0);
        if (other == rank && in != out)
            memcpy(out, in, bytes);
        else if (other != rank && kind == SCATTER)
            message_send(mesh, other, in, bytes);
        else if (other != rank)
            exchange(mesh, (Outgoing){ .to = NOBODY },
                     (Incoming){ other, out, bytes, kind == REDUCE ? out : NULL });
    }
    if (rank == root && kind == REDUCE)
        reduce_finish(collective->out, collective->count, collective->type, collective->op,
                      collective->pg->mean_ranks);
}
