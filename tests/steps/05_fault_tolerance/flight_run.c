/* The calls that the tests of flight_run.h look for in records, each on its own line. */
#include "tests/steps/05_fault_tolerance/flight_run.h"

static float data[18432];

// Prevents tail calls, so that a function that ends with a call stays on the stack.
#define STAY __asm__ volatile("")

const int sum_line = __LINE__ + 3;
void sum(ProcessGroup *pg)
{
    all_reduce(pg, data, 18432, FLOAT32, REDUCE_MEAN);
    STAY;
}

const int barrier_line = __LINE__ + 3;
void run_barrier(ProcessGroup *pg)
{
    barrier(pg);
    STAY;
}

const int broadcast_line = __LINE__ + 3;
void run_broadcast(ProcessGroup *pg)
{
    broadcast(pg, data, 10, INT32, 0);
    STAY;
}
