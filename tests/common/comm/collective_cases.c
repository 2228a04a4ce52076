/*
 * Each collective: its arrays, its call, blocking or not, and the expected result. Runs them all in
 * every type and operation, from every root, in sizes around which algorithms change.
 */
#include "tests/common/comm/collective_cases.h"

#include "tests/common/comm/collective_case.h"

#define VERY_LARGE 400009 // large enough that each rank's part is more than one chunk

static void case_all_reduce(Case *c)
{
    c->name = "all_reduce";
    void *data = array_new(c, 1);
    if (c->async)
        work_wait(all_reduce_async(c->pg, data, c->count, c->type, c->op));
    else
        all_reduce(c->pg, data, c->count, c->type, c->op);
    expect_reduced(c, data, 0);
    array_free(c, data, 1);
}

static void case_reduce_scatter(Case *c)
{
    c->name = "reduce_scatter";
    const size_t shares = (size_t)c->pg->world_size;
    void *in = array_new(c, shares), *out = array_new(c, 1);
    if (c->async)
        work_wait(reduce_scatter_async(c->pg, in, out, c->count, c->type, c->op));
    else
        reduce_scatter(c->pg, in, out, c->count, c->type, c->op);
    expect_reduced(c, out, (size_t)c->pg->rank * c->count);
    expect_input(c, in, 0, shares * c->count, c->pg->rank, 0);
    array_free(c, in, shares);
    array_free(c, out, 1);
}

static void case_reduce(Case *c)
{
    c->name = "reduce";
    void *data = array_new(c, 1);
    if (c->async)
        work_wait(reduce_async(c->pg, data, c->count, c->type, c->op, c->root));
    else
        reduce(c->pg, data, c->count, c->type, c->op, c->root);
    if (c->pg->rank == c->root)
        expect_reduced(c, data, 0);
    else
        expect_input(c, data, 0, c->count, c->pg->rank, 0);
    array_free(c, data, 1);
}

static void case_broadcast(Case *c)
{
    c->name = "broadcast";
    void *data = array_new(c, 1);
    if (c->async)
        work_wait(broadcast_async(c->pg, data, c->count, c->type, c->root));
    else
        broadcast(c->pg, data, c->count, c->type, c->root);
    expect_input(c, data, 0, c->count, c->root, 0);
    array_free(c, data, 1);
}

static void case_gather(Case *c)
{
    c->name = "gather";
    const bool is_root = c->pg->rank == c->root;
    const size_t shares = is_root ? (size_t)c->pg->world_size : 0;
    void *in = array_new(c, 1), *out = array_new(c, shares);
    gather(c->pg, in, is_root ? out : NULL, c->count, c->type, c->root);
    for (size_t rank = 0; rank < shares; rank++)
        expect_input(c, out, rank * c->count, c->count, (int)rank, 0);
    expect_input(c, in, 0, c->count, c->pg->rank, 0);
    array_free(c, in, 1);
    array_free(c, out, shares);
}

static void case_scatter(Case *c)
{
    c->name = "scatter";
    const bool is_root = c->pg->rank == c->root;
    const size_t shares = is_root ? (size_t)c->pg->world_size : 0;
    void *in = array_new(c, shares), *out = array_new(c, 1);
    scatter(c->pg, is_root ? in : NULL, out, c->count, c->type, c->root);
    expect_input(c, out, 0, c->count, c->root, (size_t)c->pg->rank * c->count);
    array_free(c, in, shares);
    array_free(c, out, 1);
}

static void case_all_gather(Case *c)
{
    c->name = "all_gather";
    const size_t shares = (size_t)c->pg->world_size;
    void *in = array_new(c, 1), *out = array_new(c, shares);
    if (c->async)
        work_wait(all_gather_async(c->pg, in, out, c->count, c->type));
    else
        all_gather(c->pg, in, out, c->count, c->type);
    for (size_t rank = 0; rank < shares; rank++)
        expect_input(c, out, rank * c->count, c->count, (int)rank, 0);
    expect_input(c, in, 0, c->count, c->pg->rank, 0);
    array_free(c, in, 1);
    array_free(c, out, shares);
}

/* The short array is this rank's share of the long one. */
static void case_in_place(Case *c)
{
    const size_t rank = (size_t)c->pg->rank, shares = (size_t)c->pg->world_size;
    char *data = array_new(c, shares), *own = data + rank * c->count * dtype_size(c->type);
    c->name = "all_gather in place";
    work_wait(all_gather_async(c->pg, own, data, c->count, c->type));
    for (size_t other = 0; other < shares; other++)
        expect_input(c, data, other * c->count, c->count, (int)other, other * c->count);
    array_free(c, data, shares);

    data = array_new(c, shares);
    own = data + rank * c->count * dtype_size(c->type);
    c->name = "reduce_scatter in place";
    work_wait(reduce_scatter_async(c->pg, data, own, c->count, c->type, c->op));
    expect_reduced(c, own, rank * c->count);
    array_free(c, data, shares);
}

/* Every rank sends to the next one; of two neighbours one sends first and the other receives. */
static void case_send_recv(Case *c)
{
    c->name = "send and recv";
    const int n = c->pg->world_size, rank = c->pg->rank;
    const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
    void *out = array_new(c, 1), *in = array_new(c, 1);
    for (int turn = 0; turn < 2 && n > 1; turn++) {
        if (turn == rank % 2)
            pg_send(c->pg, out, c->count, c->type, next);
        else
            pg_recv(c->pg, in, c->count, c->type, previous);
    }
    expect_input(c, in, 0, c->count, n > 1 ? previous : rank, 0);
    expect_input(c, out, 0, c->count, rank, 0);
    array_free(c, in, 1);
    array_free(c, out, 1);
}

/* Runs the cases of one size and type. */
static void run_size(Case *c, size_t count, DType type)
{
    c->count = count;
    c->type = type;
    for (int async = count == LARGE; async < 2; async++) { // the large ones only as async calls
        c->async = async;
        c->salt++;
        c->op = REDUCE_SUM;
        c->root = 0;
        case_all_gather(c);
        case_send_recv(c);
        for (c->op = REDUCE_SUM; c->op <= REDUCE_MIN; c->op++) {
            case_all_reduce(c);
            case_reduce_scatter(c);
            case_in_place(c);
            for (c->root = 0; c->root < c->pg->world_size; c->root++)
                case_reduce(c);
            c->root = 0;
        }
        c->op = REDUCE_SUM;
        for (c->root = 0; c->root < c->pg->world_size; c->root++) {
            case_broadcast(c);
            case_gather(c);
            case_scatter(c);
        }
    }
}

void collective_cases_run(ProcessGroup *pg)
{
    Case c = { .pg = pg };
    const size_t few = pg->world_size > 1 ? (size_t)pg->world_size - 1 : 2;
    const size_t counts[] = { 0, 1, few, 7, 1000, LARGE };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (DType type = FLOAT32; type < NUM_DTYPES; type++)
            run_size(&c, counts[i], type);

    c.count = VERY_LARGE;
    c.type = FLOAT32;
    c.op = REDUCE_MEAN;
    c.root = pg->world_size - 1;
    case_all_reduce(&c);
    case_reduce_scatter(&c);
    case_in_place(&c);
    case_all_gather(&c);
    case_broadcast(&c);
    case_reduce(&c);
    case_send_recv(&c);

    collective_rounding_run(pg);
    collective_order_run(pg);
}
