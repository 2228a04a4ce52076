/*
 * The ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009).
 *
 * The array is cut into one block for each rank. In n - 1 steps every rank sends a block to the
 * next and adds its own numbers to the one from the previous rank; then block r is complete on rank
 * r (reduce-scatter). In n - 1 more steps the complete blocks go round (all-gather). Each rank
 * sends 2 (n - 1) / n of the array: no algorithm that sums on the ranks can send less. A block is
 * summed in one place, in the order of the ring, so all ranks get the same bits.
 */
#include <string.h>

#include "common/comm/tcp/tcp_mesh.h"

/* A part of an array, in bytes. */
typedef struct {
    size_t offset, bytes;
} Block;

/* Block i modulo n of n blocks; i is not below -n. If n does not divide the elements, each of the
 * first blocks has one element more. */
static Block block_of(size_t count, DType type, int n, int i)
{
    const size_t index = (size_t)((i + n) % n);
    const size_t share = count / (size_t)n, remainder = count % (size_t)n;
    const size_t start = index * share + (index < remainder ? index : remainder);
    const size_t numel = share + (index < remainder);
    return (Block){ start * dtype_size(type), numel * dtype_size(type) };
}

/* Blocks go round: in each of n - 1 steps a rank sends a block to the next rank and receives the
 * one before it from the previous rank, into `out`. It begins with block `first` of `in`, and then
 * sends what it has just received. `in` and `out` are arrays of the same shape, or the same array.
 *
 * Reduce-scatter adds `in` to what arrives and begins with block rank - 1, so that the last block
 * that a rank receives is its own, complete; `out` also gets partial sums of the other blocks.
 * All-gather begins with the complete block. With n = 4 ranks, each receives these blocks:
 *
 *     reduce-scatter  rank 0  rank 1  rank 2  rank 3     all-gather  rank 0  rank 1  rank 2  rank 3
 *     step 0             2       3       0       1       step 0         3       0       1       2
 *     step 1             1       2       3       0       step 1         2       3       0       1
 *     step 2             0       1       2       3       step 2         1       2       3       0
 */
static void go_round(Mesh *mesh, size_t count, DType type, int first, bool adds, const char *in,
                     char *out)
{
    const int n = mesh->collective->pg->world_size, rank = mesh->collective->pg->rank;
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

    go_round(mesh, count, type, rank - 1, true, data, data); // reduce-scatter
    reduce_finish(data + own.offset, own.bytes / dtype_size(type), type, collective->op,
                  collective->pg->mean_ranks);
    go_round(mesh, count, type, rank, false, data, data); // all-gather
}

void ring_reduce_scatter(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank;
    const size_t count = collective->count;
    const DType type = collective->type;
    const size_t bytes = count * dtype_size(type);

    const char *in = collective->in;
    char *own = collective->out;
    if (n > 1) {
        // If `out` is part of `in`, partial sums may overwrite `in`: the API allows it.
        const bool in_place = own == in + (size_t)rank * bytes;
        char *sums = in_place ? own - (size_t)rank * bytes : mesh_scratch(mesh, (size_t)n * bytes);
        go_round(mesh, (size_t)n * count, type, rank - 1, true, in, sums);
        in = sums;
    }
    if (own != in + (size_t)rank * bytes)
        memcpy(own, in + (size_t)rank * bytes, bytes);
    reduce_finish(own, count, type, collective->op, collective->pg->mean_ranks);
}

void ring_all_gather(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank;
    const size_t bytes = collective->count * dtype_size(collective->type);
    char *data = collective->out, *own = data + (size_t)rank * bytes;
    if (collective->in != own)
        memcpy(own, collective->in, bytes);
    go_round(mesh, (size_t)n * collective->count, collective->type, rank, false, data, data);
}
