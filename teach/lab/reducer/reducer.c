/*
 * lab-reducer: gradients leave while the backward pass still runs. ddp.h says what each function
 * does.
 *
 *     parameter     0      1      2      3        the backward pass marks 3 first, 0 last
 *     gradients  [     |      |     |        ]
 *     buckets       bucket 1    |  bucket 0       bucket 0 leaves as soon as 2 and 3 are marked
 */
#include "common/comm/ddp.h"

#include <stdlib.h>

#include "common/base/log.h"

#define MIB (1024.0 * 1024.0)

/* Rungs 1 and 3: note what is needed later; cut the parameters into buckets. */
void reducer_init(Reducer *reducer, const Args *args, ProcessGroup *pg, float *grads,
                  const Tensor *parameter, int num_parameters)
{
    *reducer = (Reducer){ .pg = pg,
                          .grads = grads,
                          .parameter = parameter,
                          .num_parameters = num_parameters,
                          .sync = true };
    (void)args; // args->bucket_cap_mb
}

/* Rung 4. The numbers are the caller's: copy them. */
void reducer_set_uses(Reducer *reducer, const int *uses)
{
    (void)reducer, (void)uses;
    die("rung 4 is not written yet");
}

/* Rungs 2 to 4. */
void reducer_mark_ready(void *context, int i)
{
    Reducer *reducer = context;
    (void)reducer, (void)i;
}

/* Rung 1, and the others. */
void reducer_finalize(Reducer *reducer)
{
    (void)reducer;
    die("rung 1 is not written yet");
}

/* Given. */
void reducer_set_sync(Reducer *reducer, bool sync)
{
    reducer->sync = sync;
}

/* Given: steps 04 and 05 register one where a job has several nodes. You need not call it. */
void reducer_register_comm_hook(Reducer *reducer, CommHook hook, void *state)
{
    reducer->comm_hook = hook;
    reducer->comm_state = state;
}

/* Given: step 05 sends a float of its own behind the gradients, with bucket 0. */
float *reducer_spare(Reducer *reducer)
{
    Bucket *first = &reducer->bucket[0];
    return reducer->grads + first->offset + first->numel++;
}

/* Given: free(NULL) does nothing. Add what else you allocate. */
void reducer_free(Reducer *reducer)
{
    free(reducer->marks);
    free(reducer->uses);
    free(reducer->bucket_of);
    free(reducer->bucket);
}
