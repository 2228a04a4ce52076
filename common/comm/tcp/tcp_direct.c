/*
 * Reduce, gather and scatter: the root exchanges with one rank after the other.
 *
 * The simplest algorithm, and good enough for the few bytes of a metric. The root's connection is
 * the bottleneck; training's own traffic uses the ring, where no rank is special.
 */
#include <string.h>

#include "common/comm/reduce_ops.h"
#include "common/comm/tcp/tcp_collectives.h"
#include "common/comm/tcp/tcp_exchange.h"

void direct_reduce(Mesh *mesh, const Collective *collective)
{
    const size_t bytes = collective->count * dtype_size(collective->type);
    if (mesh->pg->rank != collective->root) {
        message_send(mesh, collective->root, collective->in, bytes);
        return;
    }

    for (int rank = 0; rank < mesh->pg->world_size; rank++)
        if (rank != mesh->pg->rank)
            exchange(mesh, &(Exchange){ .to = NOBODY,
                                        .from = rank,
                                        .in = collective->out,
                                        .in_bytes = bytes,
                                        .addend = collective->out });
    reduce_finish(collective->out, collective->count, collective->type, collective->op,
                  mesh->pg->mean_ranks);
}

void direct_gather(Mesh *mesh, const Collective *collective)
{
    const size_t bytes = collective->count * dtype_size(collective->type);
    char *shares = collective->out;
    if (mesh->pg->rank != collective->root) {
        message_send(mesh, collective->root, collective->in, bytes);
        return;
    }

    memcpy(shares + (size_t)mesh->pg->rank * bytes, collective->in, bytes);
    for (int rank = 0; rank < mesh->pg->world_size; rank++)
        if (rank != mesh->pg->rank)
            message_receive(mesh, rank, shares + (size_t)rank * bytes, bytes);
}

void direct_scatter(Mesh *mesh, const Collective *collective)
{
    const size_t bytes = collective->count * dtype_size(collective->type);
    const char *shares = collective->in;
    if (mesh->pg->rank != collective->root) {
        message_receive(mesh, collective->root, collective->out, bytes);
        return;
    }

    memcpy(collective->out, shares + (size_t)mesh->pg->rank * bytes, bytes);
    for (int rank = 0; rank < mesh->pg->world_size; rank++)
        if (rank != mesh->pg->rank)
            message_send(mesh, rank, shares + (size_t)rank * bytes, bytes);
}
