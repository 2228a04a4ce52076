/*
 * The answer to lab-ring: collectives from pg_send and pg_recv.
 *
 * In step s of the first phase a rank passes on the part to which it has added its own numbers in
 * step s - 1. After n - 1 steps each rank holds one complete part; in the second phase these go
 * round in the same way.
 */
#include "teach/lab/ring/ring.h"

/* Sends `out` to the next rank and receives `in` from the previous one. If all ranks sent first,
 * none would receive, so every second rank receives first. */
static void pass_on(ProcessGroup *pg, const void *out, size_t out_count, void *in, size_t in_count,
                    DType type)
{
    const int n = pg->world_size;
    const int next = (pg->rank + 1) % n, previous = (pg->rank + n - 1) % n;
    const bool first = pg->rank % 2 == 0;
    if (first)
        pg_send(pg, out, out_count, type, next);
    pg_recv(pg, in, in_count, type, previous);
    if (!first)
        pg_send(pg, out, out_count, type, next);
}

void lab_broadcast(ProcessGroup *pg, void *data, size_t count, DType type, int root)
{
    for (int rank = 0; pg->rank == root && rank < pg->world_size; rank++)
        if (rank != root)
            pg_send(pg, data, count, type, rank);
    if (pg->rank != root)
        pg_recv(pg, data, count, type, root);
}

void lab_reduce_scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                        ReduceOp op)
{
    const int n = pg->world_size, rank = pg->rank;
    const size_t bytes = count * dtype_size(type);
    const char *share = in; // of rank 0; the others follow
    char *sum = mem_alloc(count, dtype_size(type)), *arrived = mem_alloc(count, dtype_size(type));
    memcpy(sum, share + (rank + n - 1) % n * bytes, bytes);
    for (int step = 0; step < n - 1; step++) {
        const int next = (rank + 2 * n - step - 2) % n; // the share that arrives
        pass_on(pg, sum, count, arrived, count, type);
        reduce_elements(sum, arrived, share + next * bytes, count, type, op);
    }
    reduce_finish(sum, count, type, op, n);
    memcpy(out, sum, bytes); // last: it may be our share of in
    free(arrived);
    free(sum);
}

void lab_all_gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type)
{
    const int n = pg->world_size, rank = pg->rank;
    const size_t bytes = count * dtype_size(type);
    char *share = out;
    memmove(share + rank * bytes, in, bytes); // may be there already
    for (int step = 0; step < n - 1; step++) {
        const int from = (rank + n - step) % n, to = (rank + 2 * n - step - 1) % n;
        pass_on(pg, share + from * bytes, count, share + to * bytes, count, type);
    }
}

typedef struct {
    char *data;
    size_t count;
} Part;

/* Part i of the array: the first count % n parts have one element more than the others. */
static Part part_of(void *array, size_t count, DType type, int n, int i)
{
    const size_t part = (size_t)i, least = count / (size_t)n, rest = count % (size_t)n;
    const size_t begin = part * least + (part < rest ? part : rest);
    return (Part){ (char *)array + begin * dtype_size(type), least + (part < rest) };
}

void lab_all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op)
{
    const int n = pg->world_size, rank = pg->rank;
    void *arrived = mem_alloc(count / (size_t)n + 1, dtype_size(type));
    for (int step = 0; step < n - 1; step++) {
        const Part out = part_of(data, count, type, n, (rank + 2 * n - step - 1) % n);
        const Part in = part_of(data, count, type, n, (rank + 2 * n - step - 2) % n);
        pass_on(pg, out.data, out.count, arrived, in.count, type);
        reduce_elements(in.data, arrived, in.data, in.count, type, op);
    }
    const Part own = part_of(data, count, type, n, rank); // complete now
    reduce_finish(own.data, own.count, type, op, n);
    for (int step = 0; step < n - 1; step++) {
        const Part out = part_of(data, count, type, n, (rank + n - step) % n);
        const Part in = part_of(data, count, type, n, (rank + 2 * n - step - 1) % n);
        pass_on(pg, out.data, out.count, in.data, in.count, type);
    }
    free(arrived);
}
