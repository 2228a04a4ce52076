/* Results that no type holds exactly: near the true ones, and the same bits on every rank. */
#include <math.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "tests/common/comm/collective_case.h"
#include "tests/common/comm/collective_cases.h"

static void *floats_new(const Case *c)
{
    void *data = mem_calloc(c->count, dtype_size(c->type));
    for (size_t i = 0; i < c->count; i++)
        element_put(data, c->type, i, sin((double)i + 1) / (c->pg->rank + 3));
    return data;
}

/* Near the true sum, the same bits on every rank and every time. */
static void run_inexact(ProcessGroup *pg, size_t count, DType type, ReduceOp op)
{
    const Case c = { .pg = pg, .name = "all_reduce", .count = count, .type = type, .op = op };
    void *data = floats_new(&c), *again = floats_new(&c);
    all_reduce(pg, data, count, type, op);
    all_reduce(pg, again, count, type, op);

    const int n = pg->world_size;
    const double epsilon = type == BFLOAT16 ? 0x1p-8 : type == FLOAT32 ? 0x1p-23 : 0x1p-52;
    for (size_t i = 0; i < count; i++) {
        double sum = 0, magnitude = 0;
        for (int rank = 0; rank < n; rank++) {
            sum += sin((double)i + 1) / (rank + 3);
            magnitude += fabs(sin((double)i + 1)) / (rank + 3);
        }
        const double expected = op == REDUCE_MEAN ? sum / n : sum;
        if (fabs(element_get(data, type, i) - expected) > 2 * n * epsilon * magnitude)
            case_fail(&c, i, element_get(data, type, i), expected);
    }
    const size_t bytes = count * dtype_size(type);
    CHECK(memcmp(data, again, bytes) == 0, "all_reduce of %zu %s: other bits the second time",
          count, dtype_name(type));
    broadcast(pg, again, count, type, n - 1);
    CHECK(memcmp(data, again, bytes) == 0, "all_reduce of %zu %s: rank %d has other bits", count,
          dtype_name(type), n - 1);
    free(data);
    free(again);
}

/* The larger of 0 and -0 is either; the ranks must agree on which. MPICH's do not. */
static void run_signed_zeros(ProcessGroup *pg)
{
    if (strcmp(pg->backend->name, "mpi") == 0)
        return;
    const int rank = pg->rank;
    float data[7], same[7];
    for (int i = 0; i < 7; i++)
        data[i] = (i >> (rank % 3) & 1) ? 0.0f : -0.0f;
    all_reduce(pg, data, 7, FLOAT32, REDUCE_MAX);
    memcpy(same, data, sizeof same);
    broadcast(pg, same, 7, FLOAT32, 0);
    CHECK(memcmp(data, same, sizeof same) == 0, "the largest of 0 and -0 differs between ranks");
}

/* bf16 is added in float and rounded to the nearest, ties to even. The arrays hold the bits of the
 * first two ranks' numbers and of their sum. */
static void run_bf16_rounding(ProcessGroup *pg)
{
    static const uint16_t a[] = { 0x4380, 0x4381, 0x4380, 0xc380, 0x7f7f, 0x7f80, 0x3f80 };
    static const uint16_t b[] = { 0x3f80, 0x3f80, 0x4040, 0xbf80, 0x7f7f, 0x3f80, 0xb900 };
    // 256 + 1, 258 + 1, 256 + 3, -256 - 1, the largest twice, infinity + 1, 1 - 2^-13
    static const uint16_t sum[] = { 0x4380, 0x4382, 0x4382, 0xc380, 0x7f80, 0x7f80, 0x3f80 };
    uint16_t data[8] = { 0 };
    const int rank = pg->rank;
    if (rank < 2)
        memcpy(data, rank == 0 ? a : b, sizeof a);
    data[7] = rank == 0 ? 0x7fff : 0; // a NaN of many bits, which rounding must not make a zero
    all_reduce(pg, data, 8, BFLOAT16, REDUCE_SUM);
    for (int i = 0; i < 7 && pg->world_size > 1; i++)
        CHECK(data[i] == sum[i], "bfloat16: %04x + %04x is %04x, not %04x", a[i], b[i], data[i],
              sum[i]);
    CHECK((data[7] & 0x7f80) == 0x7f80 && (data[7] & 0x7f) != 0, "bfloat16: NaN + 0 is %04x",
          data[7]);
}

void collective_rounding_run(ProcessGroup *pg)
{
    for (DType type = FLOAT32; type <= FLOAT64; type++) {
        run_inexact(pg, 1000, type, REDUCE_SUM);
        run_inexact(pg, 1001, type, REDUCE_MEAN);
        run_inexact(pg, LARGE, type, REDUCE_SUM);
        run_inexact(pg, LARGE, type, REDUCE_MEAN);
    }
    run_signed_zeros(pg);
    run_bf16_rounding(pg);
}
