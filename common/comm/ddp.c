/* The Reducer: data parallelism while the backward pass still runs.
 *
 * The backward pass completes gradients from the last layer to the first. As soon as all gradients
 * of a bucket are complete, its all-reduce starts and travels while the earlier layers are still
 * being computed. Buckets are a compromise: many small ones pay the latency of a message each, a
 * single large one is sent at the very end. All ranks must send them in the same order, whatever
 * the order in which their gradients become ready; so a complete bucket waits for earlier ones. */
#include "common/comm/ddp.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"

#define MIB (1024.0 * 1024.0)
#define FIRST_BUCKET_BYTES (1 * MIB) // small, so that the first message is sent early

/* Logs what happens to bucket i. */
static void log_bucket(const Reducer *reducer, int i, const char *what)
{
    const Bucket *bucket = &reducer->bucket[i];
    const Tensor *first = &reducer->parameter[bucket->first_parameter];
    const Tensor *last = first + bucket->num_parameters - 1;
    log_detail(LOG_BUCKET, "bucket %d of %d, %s to %s, %.3f MiB, %s", i, reducer->num_buckets,
               first->name, last->name, (double)bucket->numel * sizeof(float) / MIB, what);
}

void reducer_register_comm_hook(Reducer *reducer, CommHook hook, void *state)
{
    reducer->comm_hook = hook;
    reducer->comm_state = state;
}

/* Plans the buckets, from the last parameter to the first. A frozen one ends the bucket before it,
 * since a bucket is one slice. */
static void plan_buckets(Reducer *reducer)
{
    const double cap_bytes = reducer->bucket_cap_mb * MIB;
    double limit = cap_bytes < FIRST_BUCKET_BYTES ? cap_bytes : FIRST_BUCKET_BYTES;
    Bucket *bucket = NULL;
    reducer->num_buckets = 0;
    for (int i = reducer->num_parameters - 1; i >= 0; i--) {
        const Tensor *p = &reducer->parameter[i];
        if (reducer->uses[i] == 0) {
            bucket = NULL;
            continue;
        }
        if (bucket == NULL) {
            bucket = &reducer->bucket[reducer->num_buckets++];
            *bucket = (Bucket){ 0 };
        }
        CHECK(bucket->num_parameters == 0 || p->offset + p->numel == bucket->offset,
              "parameter %s does not lie right before its successor", p->name);
        bucket->offset = p->offset;
        bucket->numel += p->numel;
        bucket->first_parameter = i;
        bucket->num_parameters++;
        bucket->pending = bucket->uses += reducer->uses[i];
        reducer->bucket_of[i] = reducer->num_buckets - 1;
        if ((double)(bucket->numel * sizeof(float)) >= limit) {
            bucket = NULL;
            limit = cap_bytes;
        }
    }
    const int last = reducer->num_parameters - 1;
    CHECK(!reducer->has_spare || reducer->uses[last] > 0,
          "parameter %s is frozen, so no float can travel behind its gradient (reducer_spare)",
          reducer->parameter[last].name);
    if (reducer->has_spare)
        reducer->bucket[0].numel++;
    for (int i = 0; log_enabled(LOG_BUCKET) && i < reducer->num_buckets; i++)
        log_bucket(reducer, i, "is planned");
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
    reducer->bucket = mem_calloc((size_t)num_parameters, sizeof *reducer->bucket);
    reducer->bucket_of = mem_calloc((size_t)num_parameters, sizeof *reducer->bucket_of);
    reducer->uses = mem_calloc((size_t)num_parameters, sizeof *reducer->uses);
    reducer->marks = mem_calloc((size_t)num_parameters, sizeof *reducer->marks);
    if (pg->nodes != NULL)
        reducer_register_comm_hook(reducer, pg->nodes->comm_hook, pg->nodes);
    for (int i = 0; i < num_parameters; i++)
        reducer->uses[i] = 1;
    plan_buckets(reducer);
}

void reducer_set_uses(Reducer *reducer, const int *uses)
{
    memcpy(reducer->uses, uses, (size_t)reducer->num_parameters * sizeof *uses);
    plan_buckets(reducer);
}

float *reducer_spare(Reducer *reducer)
{
    reducer->has_spare = true;
    plan_buckets(reducer);
    return reducer->grads + reducer->bucket[0].offset + reducer->bucket[0].numel - 1;
}

void reducer_free(Reducer *reducer)
{
    free(reducer->marks);
    free(reducer->uses);
    free(reducer->bucket_of);
    free(reducer->bucket);
}

void reducer_set_sync(Reducer *reducer, bool sync)
{
    CHECK(reducer->next == 0,
          "buckets are on their way: call reducer_finalize before reducer_set_sync");
    reducer->sync = sync;
}

/* Counts a mark of parameter i in its bucket. Sends complete buckets, in index order. */
static void count_down(Reducer *reducer, int i)
{
    reducer->marks[i]++;
    reducer->bucket[reducer->bucket_of[i]].pending--;

    while (reducer->next < reducer->num_buckets && reducer->bucket[reducer->next].pending == 0) {
        if (log_enabled(LOG_BUCKET))
            log_bucket(reducer, reducer->next, "is complete and leaves");
        Bucket *bucket = &reducer->bucket[reducer->next++];
        float *grads = reducer->grads + bucket->offset;
        const size_t numel = bucket->numel;
        if (reducer->comm_hook != NULL)
            bucket->work = reducer->comm_hook(reducer->comm_state, grads, numel);
        else
            bucket->work = all_reduce_async(reducer->pg, grads, numel, FLOAT32, REDUCE_MEAN);
    }
}

void reducer_mark_ready(void *context, int i)
{
    Reducer *reducer = context;
    if (!reducer->sync)
        return;
    const char *name = reducer->parameter[i].name;
    CHECK(reducer->uses[i] > 0, "parameter %s is frozen (reducer_set_uses), but gets a gradient",
          name);
    CHECK(reducer->marks[i] < reducer->uses[i],
          "parameter %s is marked ready twice: two backward passes without reducer_finalize "
          "between them, or more layers share it than reducer_set_uses says",
          name);
    count_down(reducer, i);
}

void reducer_finalize(Reducer *reducer)
{
    if (!reducer->sync)
        return;
    for (int i = reducer->num_parameters - 1; i >= 0; i--)
        CHECK(reducer->marks[i] == reducer->uses[i],
              "parameter %s got no gradient: let the loss depend on it, or use beyond/unused "
              "(find_unused_parameters)",
              reducer->parameter[i].name);

    log_detail(LOG_BUCKET, "the backward pass is done, waiting for %d buckets",
               reducer->num_buckets);
    for (Bucket *bucket = reducer->bucket; reducer->next > 0; bucket++, reducer->next--) {
        work_wait(bucket->work);
        bucket->pending = bucket->uses;
    }
    memset(reducer->marks, 0, (size_t)reducer->num_parameters * sizeof *reducer->marks);
    log_detail(LOG_BUCKET, "all buckets are back: gradients are averaged");
}
