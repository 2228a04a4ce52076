/* The algorithms: which rank sends what to which, and when. All ranks execute the same one at the
 * same time. The ring and the chain send few bytes, for long messages; recursive doubling and the
 * tree take few steps, for short ones. */
#include <string.h>

#include "common/comm/tcp/tcp_mesh.h"

static size_t bytes_of(const Collective *collective)
{
    return collective->count * dtype_size(collective->type);
}

/* ---- the ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009) ----
 *
 * The array is cut into one block for each rank. In n - 1 steps every rank sends a block to the
 * next and adds its own numbers to the one from the previous rank; then block r is complete on rank
 * r (reduce-scatter). In n - 1 more steps the complete blocks go round (all-gather). Each rank
 * sends 2 (n - 1) / n of the array. Where ranks do the sums, the busiest cannot send less. A block
 * is summed in one place, in the order of the ring, so all ranks get the same bits.
 *
 * In each step a rank sends what it has just received, so it receives the block before that one:
 * first - 1, first - 2 ... if it begins by sending block `first`. The last that it receives is
 * first - (n - 1), which is first + 1 modulo n. In a reduce-scatter that must be its own, so it
 * begins with block rank - 1, and receives block rank - 2 - step. An all-gather begins with the
 * rank's own block, which is complete, and receives block rank - 1 - step. With n = 4:
 *
 *     reduce-scatter  rank 0  rank 1  rank 2  rank 3     all-gather  rank 0  rank 1  rank 2  rank 3
 *     step 0             2       3       0       1       step 0         3       0       1       2
 *     step 1             1       2       3       0       step 1         2       3       0       1
 *     step 2             0       1       2       3       step 2         1       2       3       0
 */

/* A part of an array, in bytes. */
typedef struct {
    size_t offset, bytes;
} Block;

/* Returns block i modulo n of n blocks; i is not below -n. If n does not divide the elements, each
 * of the first blocks has one element more. */
static Block block_of(size_t count, DType type, int n, int i)
{
    const size_t index = (size_t)((i + n) % n);
    const size_t share = count / (size_t)n, remainder = count % (size_t)n;
    const size_t start = index * share + (index < remainder ? index : remainder);
    const size_t numel = share + (index < remainder);
    return (Block){ start * dtype_size(type), numel * dtype_size(type) };
}

/* Begins with block `first` of `in`. What arrives goes to `out`, after adding `in` to it if `adds`:
 * then other blocks than this rank's are partial sums. `in` and `out` may be the same array. */
static void go_round(Mesh *mesh, size_t count, int first, bool adds, const char *in, char *out)
{
    const int n = mesh->collective->pg->world_size, rank = mesh->collective->pg->rank;
    const DType type = mesh->collective->type;
    Block block = block_of(count, type, n, first);
    const char *sent = in + block.offset;
    for (int step = 0; step < n - 1; step++) {
        const Block coming = block_of(count, type, n, first - 1 - step);
        exchange(mesh, (Outgoing){ (rank + 1) % n, sent, block.bytes },
                 (Incoming){ (rank + n - 1) % n, out + coming.offset, coming.bytes,
                             adds ? in + coming.offset : NULL });
        block = coming;
        sent = out + block.offset;
    }
}

void ring_all_reduce(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank;
    const size_t count = collective->count;
    const DType type = collective->type;
    char *data = collective->out;
    const Block own = block_of(count, type, n, rank);

    go_round(mesh, count, rank - 1, true, data, data); // reduce-scatter
    reduce_finish(data + own.offset, own.bytes / dtype_size(type), type, collective->op,
                  collective->pg->mean_ranks);
    go_round(mesh, count, rank, false, data, data); // all-gather
}

void ring_reduce_scatter(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank;
    const size_t bytes = bytes_of(collective);
    const char *in = collective->in;
    char *own = collective->out;
    if (n > 1) {
        // If `out` is part of `in`, partial sums may overwrite `in`: the API allows it.
        const bool in_place = own == in + (size_t)rank * bytes;
        char *sums = in_place ? own - (size_t)rank * bytes : mesh_scratch(mesh, (size_t)n * bytes);
        go_round(mesh, (size_t)n * collective->count, rank - 1, true, in, sums);
        in = sums;
    }
    if (own != in + (size_t)rank * bytes)
        memcpy(own, in + (size_t)rank * bytes, bytes);
    reduce_finish(own, collective->count, collective->type, collective->op,
                  collective->pg->mean_ranks);
}

void ring_all_gather(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank;
    const size_t bytes = bytes_of(collective);
    char *data = collective->out, *own = data + (size_t)rank * bytes;
    if (collective->in != own)
        memcpy(own, collective->in, bytes);
    go_round(mesh, (size_t)n * collective->count, rank, false, data, data);
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
 * in bit k, and adds: after log2(n) steps all have the total. If n is not a power of two, the ranks
 * beyond the largest one first send their numbers to a lower rank, and get the result last. */
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

/* Every rank sends the message only once, to the next rank, in chunks: it forwards one while the
 * next arrives. So long messages take hardly longer for many ranks than for two. */
void chain_broadcast(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank, root = collective->root;
    const int next = (rank + 1) % n == root ? NOBODY : (rank + 1) % n;
    const int previous = rank == root ? NOBODY : (rank - 1 + n) % n;
    const size_t bytes = bytes_of(collective);

    char *here = collective->out; // the chunk to forward
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

/* Does reduce, gather and scatter: the root exchanges with one rank after the other. The simplest
 * algorithm, and good enough for the few bytes of a metric. Also send and recv, whose "root" is the
 * other rank. */
void direct_collective(Mesh *mesh, const Collective *collective)
{
    const CollectiveKind kind = collective->kind;
    const int rank = collective->pg->rank, root = collective->root;
    const size_t bytes = bytes_of(collective);
    if (rank != root && (kind == SCATTER || kind == RECV))
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
