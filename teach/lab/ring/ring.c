/*
 * lab-ring: collectives from pg_send and pg_recv.
 *
 * Three ranks, an array of three parts. A sum of all ranks is complete after two steps:
 *
 *               rank 0        rank 1        rank 2
 *     at first  a0 b0 c0      a1 b1 c1      a2 b2 c2
 *     step 1    sends c0 ->   sends a1 ->   sends b2 -> (to rank 0)
 *               a0 b0+b2 c0   a1 b1 c0+c1   a1+a2 b2 c2
 *     step 2    sends b ->    sends c ->    sends a ->
 *               rank 0 now has all of a, rank 1 all of b, rank 2 all of c.
 *
 * Two more steps in the same direction bring each complete part to all ranks.
 */
#include "teach/lab/ring/ring.h"

/* Sends `out` to the next rank and receives `in` from the previous one. Who receives first? */
static void pass_on(ProcessGroup *pg, const void *out, size_t out_count, void *in, size_t in_count,
                    DType type)
{
    (void)pg, (void)out, (void)out_count, (void)in, (void)in_count, (void)type;
}

/* Rung 1. */
void lab_broadcast(ProcessGroup *pg, void *data, size_t count, DType type, int root)
{
    (void)pg, (void)data, (void)count, (void)type, (void)root;
    die("rung 1 is not written yet");
}

/* Rung 3. */
void lab_reduce_scatter(ProcessGroup *pg, const void *in, void *out, size_t count, DType type,
                        ReduceOp op)
{
    (void)pg, (void)in, (void)out, (void)count, (void)type, (void)op, (void)pass_on;
    die("rung 3 is not written yet");
}

/* Rung 3. */
void lab_all_gather(ProcessGroup *pg, const void *in, void *out, size_t count, DType type)
{
    (void)pg, (void)in, (void)out, (void)count, (void)type;
    die("rung 3 is not written yet");
}

/* Rungs 2 and 4. */
void lab_all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op)
{
    (void)pg, (void)data, (void)count, (void)type, (void)op;
    die("rung 2 is not written yet");
}
