#include "tests/collective_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define LARGE 40009 // for tcp: beyond short messages even in bytes, and no multiple of anything
#define HUGE 400009 // each rank's part is more than one chunk
#define GUARD_BYTES 64 // behind each array, must stay as they are
#define GUARD 0xa5
#define NUM_IN_FLIGHT 600

/* An array of every rank's, and what it is for messages. */
typedef struct {
    ProcessGroup *pg;
    const char *name; // of the call
    DType type;
    ReduceOp op;
    size_t count; // of the call
    int root; // or peer
    bool async;
    int salt; // makes inputs differ from case to case
} Case;

static noreturn void fail(const Case *c, size_t i, double got, double expected)
{
    die("%s of %zu %s (op %d, root %d, %s): element %zu is %.17g, not %.17g", c->name, c->count,
        dtype_name(c->type), c->op, c->root, c->async ? "async" : "blocking", i, got, expected);
}

/* bf16 by the textbook: 8 significant bits, ties to even. */
static double round_to_bf16(double value)
{
    int exponent;
    const double mantissa = frexp(value, &exponent);
    return ldexp(nearbyint(ldexp(mantissa, 8)), exponent - 8);
}

static void put(void *array, DType type, size_t i, double value)
{
    float narrow;
    uint32_t bits;
    switch (type) {
    case FLOAT32:
        ((float *)array)[i] = (float)value;
        break;
    case BFLOAT16:
        narrow = (float)round_to_bf16(value);
        memcpy(&bits, &narrow, sizeof bits);
        ((uint16_t *)array)[i] = (uint16_t)(bits >> 16);
        break;
    case FLOAT64:
        ((double *)array)[i] = value;
        break;
    case INT32:
        ((int32_t *)array)[i] = (int32_t)value;
        break;
    case INT64:
        ((int64_t *)array)[i] = (int64_t)value;
        break;
    default:
        ((uint8_t *)array)[i] = (uint8_t)value;
    }
}

static double get(const void *array, DType type, size_t i)
{
    float narrow;
    uint32_t bits;
    switch (type) {
    case FLOAT32:
        return ((const float *)array)[i];
    case BFLOAT16:
        bits = (uint32_t)((const uint16_t *)array)[i] << 16;
        memcpy(&narrow, &bits, sizeof narrow);
        return narrow;
    case FLOAT64:
        return ((const double *)array)[i];
    case INT32:
        return ((const int32_t *)array)[i];
    case INT64:
        return (double)((const int64_t *)array)[i];
    default:
        return ((const uint8_t *)array)[i];
    }
}

/* What rank has at i: whole numbers, so small that every type adds those of five ranks exactly. */
static double input(const Case *c, int rank, size_t i)
{
    const int value = (int)((i * 7 + (size_t)rank * 31 + (size_t)c->salt * 13) % 50);
    return c->type == UINT8 ? value : value - 25;
}

static double reduced(const Case *c, size_t i)
{
    double result = input(c, 0, i);
    for (int rank = 1; rank < c->pg->world_size; rank++) {
        const double value = input(c, rank, i);
        if (c->op == REDUCE_MAX)
            result = fmax(result, value);
        else if (c->op == REDUCE_MIN)
            result = fmin(result, value);
        else
            result += value;
    }
    if (c->op == REDUCE_MEAN)
        result /= c->pg->world_size;
    const bool integer = c->type == INT32 || c->type == INT64 || c->type == UINT8;
    if (integer)
        return trunc(result);
    return c->type == BFLOAT16  ? round_to_bf16(result)
           : c->type == FLOAT32 ? (float)result
                                : result;
}

/* An array of `shares` times count elements of this rank's input, and a guard behind them. */
static void *array_new(const Case *c, size_t shares)
{
    const size_t numel = shares * c->count, bytes = numel * dtype_size(c->type);
    unsigned char *array = mem_calloc(bytes + GUARD_BYTES, 1);
    memset(array + bytes, GUARD, GUARD_BYTES);
    for (size_t i = 0; i < numel; i++)
        put(array, c->type, i, input(c, c->pg->rank, i));
    return array;
}

/* Compares elements from..to of an array with rank's input, from `at` on. */
static void expect_input(const Case *c, const void *array, size_t from, size_t numel, int rank,
                         size_t at)
{
    for (size_t i = 0; i < numel; i++)
        if (get(array, c->type, from + i) != input(c, rank, at + i))
            fail(c, from + i, get(array, c->type, from + i), input(c, rank, at + i));
}

static void expect_reduced(const Case *c, const void *array, size_t at)
{
    for (size_t i = 0; i < c->count; i++)
        if (get(array, c->type, i) != reduced(c, at + i))
            fail(c, i, get(array, c->type, i), reduced(c, at + i));
}

static void array_free(const Case *c, void *array, size_t shares)
{
    const unsigned char *guard = (unsigned char *)array + shares * c->count * dtype_size(c->type);
    for (int i = 0; i < GUARD_BYTES; i++)
        CHECK(guard[i] == GUARD, "%s of %zu %s wrote beyond its array", c->name, c->count,
              dtype_name(c->type));
    free(array);
}

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
    if (c->async)
        work_wait(gather_async(c->pg, in, is_root ? out : NULL, c->count, c->type, c->root));
    else
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
    if (c->async)
        work_wait(scatter_async(c->pg, is_root ? in : NULL, out, c->count, c->type, c->root));
    else
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

/* Everybody sends to the next rank; of two neighbours one sends first and the other receives. */
static void case_send_recv(Case *c)
{
    c->name = "send and recv";
    const int n = c->pg->world_size, rank = c->pg->rank;
    const int next = (rank + 1) % n, previous = (rank + n - 1) % n;
    void *out = array_new(c, 1), *in = array_new(c, 1);
    for (int turn = 0; turn < 2 && n > 1; turn++) {
        if (turn == rank % 2 && c->async)
            work_wait(pg_send_async(c->pg, out, c->count, c->type, next));
        else if (turn == rank % 2)
            pg_send(c->pg, out, c->count, c->type, next);
        else if (c->async)
            work_wait(pg_recv_async(c->pg, in, c->count, c->type, previous));
        else
            pg_recv(c->pg, in, c->count, c->type, previous);
    }
    expect_input(c, in, 0, c->count, n > 1 ? previous : rank, 0);
    expect_input(c, out, 0, c->count, rank, 0);
    array_free(c, in, 1);
    array_free(c, out, 1);
}

/* The cases of one size and type. */
static void run_size(Case *c, size_t count, DType type)
{
    c->count = count;
    c->type = type;
    for (int async = 0; async < 2; async++) {
        c->async = async;
        c->salt++;
        c->op = REDUCE_SUM;
        c->root = 0;
        case_all_gather(c);
        case_send_recv(c);
        for (c->op = REDUCE_SUM; c->op <= REDUCE_MIN; c->op++) {
            case_all_reduce(c);
            case_reduce_scatter(c);
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

static void *floats_new(const Case *c)
{
    void *data = mem_calloc(c->count, dtype_size(c->type));
    for (size_t i = 0; i < c->count; i++)
        put(data, c->type, i, sin((double)i + 1) / (c->pg->rank + 3));
    return data;
}

/* Sums that no type holds exactly: near the true one, the same bits on every rank and every time.
 */
static void run_inexact(Case *c, size_t count, DType type, ReduceOp op)
{
    c->name = "all_reduce";
    c->count = count;
    c->type = type;
    c->op = op;
    void *data = floats_new(c), *again = floats_new(c);
    all_reduce(c->pg, data, count, type, op);
    all_reduce(c->pg, again, count, type, op);

    const int n = c->pg->world_size;
    const double epsilon = type == BFLOAT16 ? 0x1p-8 : type == FLOAT32 ? 0x1p-23 : 0x1p-52;
    for (size_t i = 0; i < count; i++) {
        double sum = 0, magnitude = 0;
        for (int rank = 0; rank < n; rank++) {
            sum += sin((double)i + 1) / (rank + 3);
            magnitude += fabs(sin((double)i + 1)) / (rank + 3);
        }
        const double expected = op == REDUCE_MEAN ? sum / n : sum;
        if (fabs(get(data, type, i) - expected) > 2 * n * epsilon * magnitude)
            fail(c, i, get(data, type, i), expected);
    }
    const size_t bytes = count * dtype_size(type);
    CHECK(memcmp(data, again, bytes) == 0, "all_reduce of %zu %s: other bits the second time",
          count, dtype_name(type));
    broadcast(c->pg, again, count, type, n - 1);
    CHECK(memcmp(data, again, bytes) == 0, "all_reduce of %zu %s: rank %d has other bits", count,
          dtype_name(type), n - 1);
    free(data);
    free(again);
}

/* The larger of 0 and -0 is either; the ranks must agree on which. */
static void run_signed_zeros(Case *c)
{
    const int rank = c->pg->rank;
    float data[7], same[7];
    for (int i = 0; i < 7; i++)
        data[i] = (i >> (rank % 3) & 1) ? 0.0f : -0.0f;
    all_reduce(c->pg, data, 7, FLOAT32, REDUCE_MAX);
    memcpy(same, data, sizeof same);
    broadcast(c->pg, same, 7, FLOAT32, 0);
    CHECK(memcmp(data, same, sizeof same) == 0, "the largest of 0 and -0 differs between ranks");
}

/* More calls on their way than any queue has room for, of all kinds, waited for from the end. */
static void run_in_flight(Case *c)
{
    const int n = c->pg->world_size;
    static float data[NUM_IN_FLIGHT][40];
    Work work[NUM_IN_FLIGHT];
    for (int i = 0; i < NUM_IN_FLIGHT; i++) {
        const size_t count = (size_t)(i % 40);
        for (size_t j = 0; j < count; j++)
            data[i][j] = (float)(c->pg->rank * (i + 1));
        work[i] = i % 3 == 0 ? broadcast_async(c->pg, data[i], count, FLOAT32, i % n)
                             : all_reduce_async(c->pg, data[i], count, FLOAT32, REDUCE_SUM);
    }
    for (int i = NUM_IN_FLIGHT - 1; i >= 0; i--) {
        work_wait(work[i]);
        const float ranks = i % 3 == 0 ? (float)(i % n) : (float)(n * (n - 1)) / 2;
        for (size_t j = 0; j < (size_t)(i % 40); j++)
            CHECK(data[i][j] == ranks * (float)(i + 1), "call %d of many: %g, not %g", i,
                  data[i][j], ranks * (float)(i + 1));
    }
}

/* Between every two ranks messages arrive in the order in which they were sent. */
static void run_pairs(Case *c)
{
    const int n = c->pg->world_size, rank = c->pg->rank;
    for (int low = 0; low < n; low++) {
        for (int high = low + 1; high < n; high++) {
            int32_t first = 100 * low + high, second = -first, got[2] = { 0 };
            if (rank == low) {
                pg_send(c->pg, &first, 1, INT32, high);
                pg_send(c->pg, &second, 1, INT32, high);
                pg_recv(c->pg, got, 2, INT32, high);
            } else if (rank == high) {
                pg_recv(c->pg, &got[0], 1, INT32, low);
                pg_recv(c->pg, &got[1], 1, INT32, low);
                pg_send(c->pg, got, 2, INT32, low);
            } else {
                continue;
            }
            CHECK(got[0] == first && got[1] == second, "ranks %d and %d: %d %d, not %d %d", low,
                  high, got[0], got[1], first, second);
        }
    }
}

/* Nobody leaves a barrier before the last has come. */
static void run_barrier(Case *c)
{
    for (int late = 0; late < c->pg->world_size; late++) {
        if (c->pg->rank == late)
            usleep(10000);
        const double came = seconds_now();
        barrier(c->pg);
        const double left = seconds_now();
        const double last_came = all_reduce_scalar(c->pg, came, REDUCE_MAX);
        CHECK(left >= last_came, "left a barrier %g s before all had come", last_came - left);
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

    c.count = HUGE;
    c.type = FLOAT32;
    c.op = REDUCE_MEAN;
    c.root = pg->world_size - 1;
    case_all_reduce(&c);
    case_reduce_scatter(&c);
    case_all_gather(&c);
    case_broadcast(&c);
    case_reduce(&c);
    case_send_recv(&c);

    for (DType type = FLOAT32; type <= FLOAT64; type++) {
        run_inexact(&c, 1000, type, REDUCE_SUM);
        run_inexact(&c, 1001, type, REDUCE_MEAN);
        run_inexact(&c, LARGE, type, REDUCE_SUM);
        run_inexact(&c, LARGE, type, REDUCE_MEAN);
    }
    run_signed_zeros(&c);
    run_in_flight(&c);
    run_pairs(&c);
    run_barrier(&c);
}
