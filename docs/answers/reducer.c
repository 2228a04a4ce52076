/* The answer to lab-reducer: common/comm/ddp.c without its log and its hooks. */
#include "common/comm/ddp.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

#define MIB (1024.0 * 1024.0)

/* Cuts the parameters into buckets, from the end. */
static void plan(Reducer *reducer)
{
    const double cap_bytes = reducer->bucket_cap_mb * MIB;
    double limit = cap_bytes < MIB ? cap_bytes : MIB; // of the first
    Bucket *bucket = NULL;
    reducer->num_buckets = 0;
    for (int i = reducer->num_parameters - 1; i >= 0; i--) {
        const Tensor *p = &reducer->parameter[i];
        if (reducer->uses[i] == 0) { // a bucket is a slice: it ends here
            bucket = NULL;
            continue;
        }
        if (bucket == NULL) {
            bucket = &reducer->bucket[reducer->num_buckets++];
            *bucket = (Bucket){ 0 };
        }
        bucket->offset = p->offset;
        bucket->numel += p->numel;
        bucket->first_parameter = i;
        bucket->num_parameters++;
        bucket->pending += reducer->uses[i];
        reducer->bucket_of[i] = reducer->num_buckets - 1;
        if ((double)(bucket->numel * sizeof(float)) >= limit) {
            bucket = NULL;
            limit = cap_bytes;
        }
    }
}

void reducer_init(Reducer *reducer, const Args *args, ProcessGroup *pg, float *grads,
                  const Tensor *parameter, int num_parameters)
{
    *reducer = (Reducer){ .pg = pg,
                          .grads = grads,
                          .parameter = parameter,
                          .num_parameters = num_parameters,
                          .bucket_cap_mb = args->bucket_cap_mb,
                          .sync = true };
    const size_t count = (size_t)num_parameters;
    reducer->bucket = mem_calloc(count, sizeof *reducer->bucket);
    reducer->bucket_of = mem_calloc(count, sizeof *reducer->bucket_of);
    reducer->uses = mem_calloc(count, sizeof *reducer->uses);
    reducer->marks = mem_calloc(count, sizeof *reducer->marks);
    for (int i = 0; i < num_parameters; i++)
        reducer->uses[i] = 1;
    plan(reducer);
}

void reducer_set_uses(Reducer *reducer, const int *uses)
{
    memcpy(reducer->uses, uses, (size_t)reducer->num_parameters * sizeof *uses);
    plan(reducer);
}

void reducer_mark_ready(void *context, int i)
{
    Reducer *reducer = context;
    if (!reducer->sync)
        return;
    reducer->marks[i]++;
    reducer->bucket[reducer->bucket_of[i]].pending--;
    while (reducer->next < reducer->num_buckets && reducer->bucket[reducer->next].pending == 0) {
        Bucket *bucket = &reducer->bucket[reducer->next++];
        bucket->work = all_reduce_async(reducer->pg, reducer->grads + bucket->offset, bucket->numel,
                                        FLOAT32, REDUCE_MEAN);
    }
}

void reducer_finalize(Reducer *reducer)
{
    if (!reducer->sync)
        return;
    for (int i = 0; i < reducer->num_parameters; i++)
        CHECK(reducer->marks[i] == reducer->uses[i],
              "parameter %s was marked %d times, not %d times", reducer->parameter[i].name,
              reducer->marks[i], reducer->uses[i]);
    for (int i = 0; i < reducer->num_buckets; i++)
        work_wait(reducer->bucket[i].work);
    for (int i = 0; i < reducer->num_parameters; i++) {
        if (reducer->uses[i] > 0)
            reducer->bucket[reducer->bucket_of[i]].pending += reducer->uses[i];
        reducer->marks[i] = 0;
    }
    reducer->next = 0;
}

void reducer_set_sync(Reducer *reducer, bool sync)
{
    reducer->sync = sync;
}

void reducer_register_comm_hook(Reducer *reducer, CommHook hook, void *state)
{
    reducer->comm_hook = hook;
    reducer->comm_state = state;
}

float *reducer_spare(Reducer *reducer)
{
    Bucket *first = &reducer->bucket[0];
    return reducer->grads + first->offset + first->numel++;
}

void reducer_free(Reducer *reducer)
{
    free(reducer->marks);
    free(reducer->uses);
    free(reducer->bucket_of);
    free(reducer->bucket);
}
