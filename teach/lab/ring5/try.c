/*
 * Usage: try RUNG RANKS SEED
 * The harness of lab-ring5 is rung 4 of lab-ring's, for which exchange is made of the harness's own
 * pg_send and pg_recv: every second rank sends first.
 */
#define main try_ring
#include "teach/lab/ring/try.c"
#undef main

#include "teach/lab/ring5/ring5.h"

static ProcessGroup group; // group of the call in progress

void exchange(Mesh *mesh, Outgoing sent, Incoming received)
{
    (void)mesh;
    void *arrived = received.data;
    if (received.addend != NULL)
        arrived = mem_alloc(received.bytes + 1, 1);
    const bool first = group.rank % 2 == 0;
    if (first && sent.to != NOBODY)
        pg_send(&group, sent.data, sent.bytes, UINT8, sent.to);
    if (received.from != NOBODY)
        pg_recv(&group, arrived, received.bytes, UINT8, received.from);
    if (!first && sent.to != NOBODY)
        pg_send(&group, sent.data, sent.bytes, UINT8, sent.to);
    const Collective *call = mesh->collective;
    if (received.addend != NULL) {
        reduce_elements(received.data, arrived, received.addend,
                        received.bytes / dtype_size(call->type), call->type, call->op);
        free(arrived);
    }
}

void lab_all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op)
{
    group = *pg;
    group.mean_ranks = pg->world_size;
    const Collective call = { .pg = &group,
                              .kind = ALL_REDUCE,
                              .in = data,
                              .out = data,
                              .count = count,
                              .type = type,
                              .op = op };
    Mesh mesh = { .rank = pg->rank, .world_size = pg->world_size, .collective = &call };
    lab_ring(&mesh, &call);
}

void lab_broadcast(ProcessGroup *pg, void *data, size_t count, DType type, int root)
{
    (void)pg, (void)data, (void)count, (void)type, (void)root;
}

void lab_reduce_scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                        ReduceOp op)
{
    (void)pg, (void)in, (void)out, (void)count, (void)type, (void)op;
}

void lab_all_gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type)
{
    (void)pg, (void)in, (void)out, (void)count, (void)type;
}

int main(int argc, char **argv)
{
    char four[] = "4"; // the rung of lab-ring that is judged
    if (argc == 4)
        argv[1] = four;
    return try_ring(argc, argv);
}
