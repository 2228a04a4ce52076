/* lab-ring in a real program: the linker sends the calls in link.txt here (--wrap), and they become
 * the learner's. Calls inside collective.c stay ours. A learner's call blocks, so nothing is left
 * to wait for, and nothing overlaps. */
#include "teach/lab/ring/ring.h"

#define DONE (-1) // the ticket of a call that has returned

void __real_work_wait(Work work);

void __wrap_work_wait(Work work)
{
    if (work.ticket != DONE)
        __real_work_wait(work);
}

void __wrap_all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op)
{
    CHECK(!pg->place.on_gpu, "the ring of lab-ring knows host memory only: use --device cpu");
    lab_all_reduce(pg, data, count, type, op);
}

Work __wrap_all_reduce_async(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op)
{
    __wrap_all_reduce(pg, data, count, type, op);
    return (Work){ pg, DONE };
}

double __wrap_all_reduce_scalar(ProcessGroup *pg, double value, ReduceOp op)
{
    lab_all_reduce(pg, &value, 1, FLOAT64, op);
    return value;
}

void __wrap_broadcast(ProcessGroup *pg, void *data, size_t count, DType type, int root)
{
    CHECK(!pg->place.on_gpu, "the ring of lab-ring knows host memory only: use --device cpu");
    lab_broadcast(pg, data, count, type, root);
}

Work __wrap_broadcast_async(ProcessGroup *pg, void *data, size_t count, DType type, int root)
{
    __wrap_broadcast(pg, data, count, type, root);
    return (Work){ pg, DONE };
}

void __wrap_all_gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type)
{
    lab_all_gather(pg, in, out, count, type);
}

Work __wrap_all_gather_async(ProcessGroup *pg, const void *in, void *out, size_t count, DType type)
{
    lab_all_gather(pg, in, out, count, type);
    return (Work){ pg, DONE };
}

void __wrap_reduce_scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                           ReduceOp op)
{
    lab_reduce_scatter(pg, in, out, count, type, op);
}

Work __wrap_reduce_scatter_async(ProcessGroup *pg, const void *in, void *out, size_t count,
                                 DType type, ReduceOp op)
{
    lab_reduce_scatter(pg, in, out, count, type, op);
    return (Work){ pg, DONE };
}
