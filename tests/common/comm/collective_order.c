/* Calls keep their order: hundreds in flight at once, messages of two ranks, and barriers. */
#include <unistd.h>

#include "common/base/log.h"
#include "tests/common/comm/collective_cases.h"

#define NUM_IN_FLIGHT 600

/* More calls of all kinds in flight than any queue holds, waited for in reverse order. */
static void run_in_flight(ProcessGroup *pg)
{
    const int n = pg->world_size;
    static float data[NUM_IN_FLIGHT][40];
    Work work[NUM_IN_FLIGHT];
    for (int i = 0; i < NUM_IN_FLIGHT; i++) {
        const size_t count = (size_t)(i % 40);
        for (size_t j = 0; j < count; j++)
            data[i][j] = (float)(pg->rank * (i + 1));
        work[i] = i % 3 == 0 ? broadcast_async(pg, data[i], count, FLOAT32, i % n)
                             : all_reduce_async(pg, data[i], count, FLOAT32, REDUCE_SUM);
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
static void run_pairs(ProcessGroup *pg)
{
    const int n = pg->world_size, rank = pg->rank;
    for (int low = 0; low < n; low++) {
        for (int high = low + 1; high < n; high++) {
            int32_t first = 100 * low + high, second = -first, got[2] = { 0 };
            if (rank == low) {
                pg_send(pg, &first, 1, INT32, high);
                pg_send(pg, &second, 1, INT32, high);
                pg_recv(pg, got, 2, INT32, high);
            } else if (rank == high) {
                pg_recv(pg, &got[0], 1, INT32, low);
                pg_recv(pg, &got[1], 1, INT32, low);
                pg_send(pg, got, 2, INT32, low);
            } else {
                continue;
            }
            CHECK(got[0] == first && got[1] == second, "ranks %d and %d: %d %d, not %d %d", low,
                  high, got[0], got[1], first, second);
        }
    }
}

/* No rank leaves a barrier before the last has entered it. */
static void run_barrier(ProcessGroup *pg)
{
    for (int late = 0; late < pg->world_size; late++) {
        if (pg->rank == late)
            usleep(10000);
        const double came = seconds_now();
        barrier(pg);
        const double left = seconds_now();
        const double last_came = all_reduce_scalar(pg, came, REDUCE_MAX);
        CHECK(left >= last_came, "left a barrier %g s before all had come", last_came - left);
    }
}

void collective_order_run(ProcessGroup *pg)
{
    run_in_flight(pg);
    run_pairs(pg);
    run_barrier(pg);
}
