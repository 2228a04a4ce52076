/* The collectives of beyond/gloo among ranks in C, and its options. test_gloo_played.c has one
 * rank. */
#include <math.h>

#include "beyond/gloo/gloo.h"
#include "common/base/log.h"
#include "tests/helpers/child.h"
#include "tests/helpers/ranks.h"

static void join(Rank *rank, ProcessGroup *pg)
{
    char port[16];
    snprintf(port, sizeof port, "%d", rank->store.port);
    setenv("MASTER_PORT", port, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1); // the test serves the store
    rank->args.backend = BACKEND_GLOO;
    gloo_group_init(pg, &rank->args, rank->store.host, rank->store.port, rank->rank,
                    rank->world_size, (MemoryLocation){ 0 });
}

/* ---- collectives among ranks in C ---- */

static int64_t number(int rank, size_t i)
{
    return (int64_t)((i * 7 + (size_t)rank * 31 + 3) % 101) - 50;
}

static void fill(double *data, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        data[i] = (double)number(rank, i);
}

static double sum_of(int n, size_t i)
{
    double sum = 0;
    for (int r = 0; r < n; r++)
        sum += (double)number(r, i);
    return sum;
}

static double largest_of(int n, size_t i)
{
    double most = -INFINITY;
    for (int r = 0; r < n; r++)
        most = fmax(most, (double)number(r, i));
    return most;
}

static void expect(const char *what, size_t count, size_t i, double got, double due)
{
    CHECK(got == due, "%s of %zu: element %zu is %g, not %g", what, count, i, got, due);
}

static void reductions(ProcessGroup *pg, size_t count, double *data)
{
    const int n = pg->world_size;
    fill(data, count, pg->rank);
    all_reduce(pg, data, count, FLOAT64, REDUCE_SUM);
    for (size_t i = 0; i < count; i++)
        expect("sum", count, i, data[i], sum_of(n, i));
    fill(data, count, pg->rank);
    all_reduce(pg, data, count, FLOAT64, REDUCE_MEAN);
    for (size_t i = 0; i < count; i++)
        expect("mean", count, i, data[i], sum_of(n, i) / n);
    fill(data, count, pg->rank);
    all_reduce(pg, data, count, FLOAT64, REDUCE_MAX);
    for (size_t i = 0; i < count; i++)
        expect("max", count, i, data[i], largest_of(n, i));
    for (int root = 0; root < n; root++) {
        fill(data, count, pg->rank);
        reduce(pg, data, count, FLOAT64, REDUCE_SUM, root);
        for (size_t i = 0; i < count; i++) // the others' data stays
            expect("reduce", count, i, data[i],
                   pg->rank == root ? sum_of(n, i) : (double)number(pg->rank, i));
    }
}

static void copies(ProcessGroup *pg, size_t count, double *data, double *all)
{
    const int n = pg->world_size;
    for (int root = 0; root < n; root++) {
        fill(data, count, pg->rank);
        broadcast(pg, data, count, FLOAT64, root);
        for (size_t i = 0; i < count; i++)
            expect("broadcast", count, i, data[i], (double)number(root, i));
        fill(data, count, pg->rank);
        gather(pg, data, all, count, FLOAT64, root);
        for (size_t i = 0; pg->rank == root && i < count * (size_t)n; i++)
            expect("gather", count, i, all[i], (double)number((int)(i / count), i % count));
        fill(all, count * (size_t)n, root);
        scatter(pg, all, data, count, FLOAT64, root);
        for (size_t i = 0; i < count; i++)
            expect("scatter", count, i, data[i],
                   (double)number(root, i + (size_t)pg->rank * count));
    }
    fill(data, count, pg->rank);
    all_gather(pg, data, all, count, FLOAT64);
    for (size_t i = 0; i < count * (size_t)n; i++)
        expect("all_gather", count, i, all[i], (double)number((int)(i / count), i % count));
    fill(all, count * (size_t)n, pg->rank);
    reduce_scatter(pg, all, data, count, FLOAT64, REDUCE_SUM);
    for (size_t i = 0; i < count; i++)
        expect("reduce_scatter", count, i, data[i], sum_of(n, i + (size_t)pg->rank * count));
}

static void collectives_body(Rank *rank)
{
    static const size_t counts[] = { 0, 1, 2, 5, 1001, 700001 }; // the last: more than 2 n MiB
    ProcessGroup pg;
    join(rank, &pg);
    for (size_t k = 0; k < LENGTH(counts); k++) {
        double *data = mem_alloc(counts[k] + 1, sizeof *data);
        double *all = mem_alloc(counts[k] * (size_t)pg.world_size + 1, sizeof *all);
        reductions(&pg, counts[k], data);
        if (counts[k] < 10000)
            copies(&pg, counts[k], data, all);
        free(all);
        free(data);
    }
    barrier(&pg);
    uint8_t byte = (uint8_t)rank->rank, bytes[MAX_RANKS]; // halves of 0 bytes and of 1
    all_gather(&pg, &byte, bytes, 1, UINT8);
    for (int r = 0; r < pg.world_size; r++)
        CHECK(bytes[r] == r, "byte %d is %d", r, bytes[r]);
    Work work[40];
    float sums[40];
    for (int k = 0; k < 40; k++) {
        sums[k] = (float)(k + rank->rank);
        work[k] = all_reduce_async(&pg, &sums[k], 1, FLOAT32, REDUCE_SUM);
    }
    for (int k = 39, n = pg.world_size; k >= 0; k--) {
        work_wait(work[k]);
        CHECK(sums[k] == (float)(n * k + n * (n - 1) / 2), "call %d gives %g", k, (double)sums[k]);
    }
    if (pg.world_size > 1 && rank->rank == 0)
        pg_send(&pg, sums, 40, FLOAT32, 1);
    if (rank->rank == 1)
        pg_recv(&pg, sums, 40, FLOAT32, 0);
    process_group_destroy(&pg);
}

static void test_collectives(void **state)
{
    (void)state;
    for (int n = 1; n <= 5; n++)
        ranks_run_well(n, collectives_body, NULL);
}

/* Gloo's order of additions: block q is ((x[q-1] + x[q-2]) + ...) + x[q], ranks modulo n. */
static void order_body(Rank *rank)
{
    enum { COUNT = 1000 };
    const int n = rank->world_size;
    ProcessGroup pg;
    join(rank, &pg);
    float data[COUNT];
    for (int i = 0; i < COUNT; i++)
        data[i] = sinf((float)(1 + i + 100 * rank->rank));
    all_reduce(&pg, data, COUNT, FLOAT32, REDUCE_SUM);
    const int segment = (COUNT + 2 * n - 1) / (2 * n);
    for (int i = 0; i < COUNT; i++) {
        const int q = i / segment / 2;
        float sum = sinf((float)(1 + i + 100 * ((q + n - 1) % n)));
        for (int k = 2; k <= n; k++)
            sum += sinf((float)(1 + i + 100 * ((q + n - k) % n)));
        CHECK(data[i] == sum, "element %d is %a, not %a", i, (double)data[i], (double)sum);
    }
    process_group_destroy(&pg);
}

static void test_order(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++)
        ranks_run_well(n, order_body, NULL);
}

/* ---- options ---- */

static void refused_body(const void *context)
{
    Args args;
    args_defaults(&args, "linear");
    const char *what = context;
    args.backend = strcmp(what, "mpi") == 0 ? BACKEND_MPI : BACKEND_GLOO;
    args.trace = strcmp(what, "trace") == 0 ? "file" : NULL;
    args.check_collectives = strcmp(what, "check") == 0;
    if (strcmp(what, "detail") == 0)
        setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL", 1);
    ProcessGroup pg;
    gloo_group_init(&pg, &args, "127.0.0.1", 1, 0, 1, (MemoryLocation){ 0 });
}

static void test_options(void **state)
{
    (void)state;
    assert_dies_saying(refused_body, "mpi", 2, "--backend mpi: this program has gloo and tcp");
    assert_dies_saying(refused_body, "trace", 2, "--trace: PyTorch's ranks do not make the calls");
    assert_dies_saying(refused_body, "check", 2, "--check-collectives: PyTorch's ranks");
    assert_dies_saying(refused_body, "detail", 2, "TORCH_DISTRIBUTED_DEBUG=DETAIL", "unset it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collectives),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
