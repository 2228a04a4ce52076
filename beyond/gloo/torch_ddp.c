/* PyTorch's Reducer (torch/csrc/distributed/c10d/reducer.cpp), as the other ranks see it. */
#include "beyond/gloo/torch_ddp.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define MIB (1024.0 * 1024.0)
#define MAX_BROADCAST (250u << 20) // bytes, above which PyTorch sends parameters in pieces

/* ---- construction ---- */

static void compare_counts(const TorchDdp *ddp)
{
    const int64_t own = ddp->model->num_parameters;
    int64_t *counts = mem_alloc((size_t)ddp->pg->world_size, sizeof *counts);
    all_gather(ddp->pg, &own, counts, 1, INT64);
    for (int i = 0; i < ddp->pg->world_size; i++)
        CHECK(counts[i] == own, "rank %d's model has %lld parameters, this rank's has %lld", i,
              (long long)counts[i], (long long)own);
    free(counts);
}

/* Writes the sizes of a parameter, then its strides, and returns the end. */
static int64_t *describe(const Tensor *parameter, int64_t *to)
{
    int64_t *strides = to + parameter->ndim;
    int64_t stride = 1;
    for (int d = parameter->ndim - 1; d >= 0; d--) {
        to[d] = (int64_t)parameter->shape[d];
        strides[d] = stride;
        stride *= to[d];
    }
    return strides + parameter->ndim;
}

/* Rank 0's shapes must be this rank's. */
static void compare_shapes(const TorchDdp *ddp)
{
    int64_t own[MODEL_MAX_PARAMETERS * 8], first[MODEL_MAX_PARAMETERS * 8], *end = own;
    for (int i = 0; i < ddp->model->num_parameters; i++)
        end = describe(&ddp->model->parameter[i], end);
    const size_t count = (size_t)(end - own);
    memcpy(first, own, count * sizeof *own);
    broadcast(ddp->pg, first, count, INT64, 0);
    const int64_t *theirs = first;
    for (int i = 0; i < ddp->model->num_parameters; i++) {
        const Tensor *parameter = &ddp->model->parameter[i];
        CHECK(memcmp(theirs, own + (theirs - first), 2 * (size_t)parameter->ndim * sizeof *own) ==
                  0,
              "rank 0's parameter %s has another shape than this rank's: is it the same --model?",
              parameter->name);
        theirs += 2 * parameter->ndim;
    }
}

static void receive_parameters(TorchDdp *ddp)
{
    Model *model = ddp->model;
    CHECK(model->numel * sizeof(float) < MAX_BROADCAST, "the model has 250 MiB or more");
    for (int i = 0; i < model->num_parameters; i++)
        model_export(model, i, model->params, ddp->flat + ddp->place[i]);
    broadcast(ddp->pg, ddp->flat, model->numel, FLOAT32, 0);
    for (int i = 0; i < model->num_parameters; i++)
        model_import(model, i, ddp->flat + ddp->place[i], model->params);
}

/* ---- buckets ---- */

/* Cuts `order` into buckets of so many parameters each. */
static void set_buckets(TorchDdp *ddp, const int32_t *counts, int num_buckets)
{
    size_t offset = 0;
    int k = 0;
    ddp->num_buckets = num_buckets;
    for (int b = 0; b < num_buckets; b++) {
        TorchBucket *bucket = &ddp->bucket[b];
        *bucket =
            (TorchBucket){ .first = k, .count = counts[b], .pending = counts[b], .offset = offset };
        for (; k < bucket->first + bucket->count; k++) {
            ddp->place[ddp->order[k]] = offset;
            offset += ddp->model->parameter[ddp->order[k]].numel;
        }
        bucket->numel = offset - bucket->offset;
    }
}

/* Cuts the order of readiness as PyTorch does: a bucket ends with the parameter that reaches the
 * limit. Returns the number of buckets. */
static int plan(const TorchDdp *ddp, int32_t *indices, int32_t *counts)
{
    int num_buckets = 0;
    double bytes = 0, limit = MIB < ddp->bucket_cap_mb * MIB ? MIB : ddp->bucket_cap_mb * MIB;
    for (int k = 0; k < ddp->model->num_parameters; k++) {
        indices[k] = ddp->ready[k];
        counts[num_buckets]++;
        bytes += (double)(ddp->model->parameter[ddp->ready[k]].numel * sizeof(float));
        if (bytes < limit)
            continue;
        num_buckets++;
        bytes = 0;
        limit = ddp->bucket_cap_mb * MIB;
    }
    return num_buckets + (bytes > 0);
}

/* Takes over rank 0's buckets, whose numbers are not trusted: each parameter must occur once. */
static void adopt(TorchDdp *ddp, const int32_t *indices, const int32_t *counts, int num_buckets)
{
    const int num_parameters = ddp->model->num_parameters;
    bool has[MODEL_MAX_PARAMETERS] = { false };
    int64_t sum = 0;
    for (int k = 0; k < num_parameters; k++) {
        const int32_t i = indices[k];
        CHECK(i >= 0 && i < num_parameters && !has[i],
              "rank 0's buckets make no sense: parameter %d of %d is at place %d", i,
              num_parameters, k);
        has[i] = true;
        ddp->order[k] = i;
    }
    for (int b = 0; b < num_buckets; sum += counts[b++])
        CHECK(counts[b] > 0, "rank 0's bucket %d has %d parameters", b, counts[b]);
    CHECK(sum == num_parameters, "rank 0's buckets have %lld parameters, the model %d",
          (long long)sum, num_parameters);
    set_buckets(ddp, counts, num_buckets);
}

void torch_ddp_forward(TorchDdp *ddp)
{
    const int num_parameters = ddp->model->num_parameters;
    if (ddp->rebuilt || ddp->num_ready < num_parameters)
        return;
    int32_t indices[MODEL_MAX_PARAMETERS + 1] = { 0 }, counts[MODEL_MAX_PARAMETERS] = { 0 };
    if (ddp->pg->rank == 0)
        indices[num_parameters] = plan(ddp, indices, counts);
    broadcast(ddp->pg, indices, (size_t)num_parameters + 1, INT32, 0);
    const int num_buckets = indices[num_parameters];
    CHECK(num_buckets > 0 && num_buckets <= num_parameters,
          "rank 0 has %d buckets for %d parameters", num_buckets, num_parameters);
    broadcast(ddp->pg, counts, (size_t)num_buckets, INT32, 0);
    adopt(ddp, indices, counts, num_buckets);
    ddp->rebuilt = true;
    for (int b = 0; b < num_buckets; b++)
        log_detail(
            LOG_BUCKET, "bucket %d of %d, as rank 0 has it: %d parameters from %s on, %.3f MiB", b,
            num_buckets, counts[b], ddp->model->parameter[ddp->order[ddp->bucket[b].first]].name,
            (double)ddp->bucket[b].numel * sizeof(float) / MIB);
}

/* ---- steps ---- */

void torch_ddp_init(TorchDdp *ddp, const Args *args, ProcessGroup *pg, Model *model)
{
    *ddp = (TorchDdp){ .pg = pg, .model = model, .bucket_cap_mb = args->bucket_cap_mb };
    ddp->flat = mem_alloc(model->numel, sizeof *ddp->flat);
    for (int i = 0; i < model->num_parameters; i++)
        ddp->order[i] = i;
    set_buckets(ddp, &(int32_t){ model->num_parameters }, 1);
    compare_counts(ddp);
    compare_shapes(ddp);
    receive_parameters(ddp);
}

static TorchBucket *bucket_of(TorchDdp *ddp, int i)
{
    TorchBucket *bucket = &ddp->bucket[ddp->num_buckets - 1];
    while (bucket->offset > ddp->place[i])
        bucket--;
    return bucket;
}

void torch_ddp_mark_ready(void *context, int i)
{
    TorchDdp *ddp = context;
    const size_t numel = ddp->model->parameter[i].numel;
    const float factor = (float)(1.0 / ddp->pg->world_size);
    float *to = ddp->flat + ddp->place[i];
    model_export(ddp->model, i, ddp->model->grads, to);
    for (size_t k = 0; k < numel; k++)
        to[k] *= factor;
    if (ddp->num_ready < ddp->model->num_parameters)
        ddp->ready[ddp->num_ready++] = i;

    bucket_of(ddp, i)->pending--;
    while (ddp->next < ddp->num_buckets && ddp->bucket[ddp->next].pending == 0) {
        TorchBucket *bucket = &ddp->bucket[ddp->next++];
        bucket->work = all_reduce_async(ddp->pg, ddp->flat + bucket->offset, bucket->numel, FLOAT32,
                                        REDUCE_SUM);
    }
}

void torch_ddp_finalize(TorchDdp *ddp)
{
    CHECK(ddp->next == ddp->num_buckets,
          "bucket %d is not complete: not every parameter got a gradient", ddp->next);
    for (TorchBucket *bucket = ddp->bucket; ddp->next > 0; bucket++, ddp->next--) {
        work_wait(bucket->work);
        bucket->pending = bucket->count;
        for (int k = bucket->first; k < bucket->first + bucket->count; k++)
            model_import(ddp->model, ddp->order[k], ddp->flat + ddp->place[ddp->order[k]],
                         ddp->model->grads);
    }
}

void torch_ddp_free(TorchDdp *ddp)
{
    free(ddp->flat);
}
