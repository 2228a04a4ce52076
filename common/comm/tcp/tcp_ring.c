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

/* Block i modulo n of n blocks, as even as possible; i is not below -n. */
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
 * that a rank receives is its own, complete; all-gather begins with that. Of n = 4, the blocks that
 * are received, modulo n:
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
        exchange(mesh, &(Exchange){ .to = (rank + 1) % n,
                                    .out = sent,
                                    .out_bytes = block.bytes,
                                    .from = (rank + n - 1) % n,
                                    .in = out + coming.offset,
                                    .in_bytes = coming.bytes,
                                    .addend = adds ? in + coming.offset : NULL });
        block = coming;
        sent = out + block.offset;
    }
}

/* Sums block `rank` of `in` over all ranks into `sums`, which also gets partial sums of others. */
static void reduce_scatter_blocks(Mesh *mesh, size_t count, DType type, const char *in, char *sums)
{
    go_round(mesh, count, type, mesh->collective->pg->rank - 1, true, in, sums);
}

/* Completes data, of which every rank has block `rank`. */
static void all_gather_blocks(Mesh *mesh, size_t count, DType type, char *data)
{
    go_round(mesh, count, type, mesh->collective->pg->rank, false, data, data);
}

void ring_all_reduce(Mesh *mesh, const Collective *collective)
{
    const int n = collective->pg->world_size, rank = collective->pg->rank;
    const size_t count = collective->count;
    const DType type = collective->type;
    char *data = collective->out;
    const Block own = block_of(count, type, n, rank);

    reduce_scatter_blocks(mesh, count, type, data, data);
    reduce_finish(data + own.offset, own.bytes / dtype_size(type), type, collective->op,
                  collective->pg->mean_ranks);
    all_gather_blocks(mesh, count, type, data);
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
        reduce_scatter_blocks(mesh, (size_t)n * count, type, in, sums);
        in = sums;
    }
    if (own != in + (size_t)rank * bytes)
        memcpy(own, in + (size_t)rank * bytes, bytes);
    reduce_finish(own, count, type, collective->op, collective->pg->mean_ranks);
}

void ring_all_gather(Mesh *mesh, const Collective *collective)
{
    char *data = collective->out;
    const size_t bytes = collective->count * dtype_size(collective->type);
    if (collective->in != data + (size_t)collective->pg->rank * bytes)
        memcpy(data + (size_t)collective->pg->rank * bytes, collective->in, bytes);
    all_gather_blocks(mesh, (size_t)collective->pg->world_size * collective->count,
                      collective->type, data);
}
