/* ddp.h - averages gradients over the ranks, bucket by bucket, while the backward pass still runs.
 *
 * - Call reducer_init once, and make reducer_mark_ready the model's GradHook.
 * - After each backward pass call reducer_finalize; the gradients are then the mean over all ranks.
 * - To accumulate gradients of several passes, turn sync off for all but the last (DDP's no_sync).
 * - For parameters that layers share, or that are frozen, call reducer_set_uses.
 * - To send buckets in another way than by all_reduce, register a communication hook.
 *
 * The Reducer of PyTorch's DistributedDataParallel (torch/csrc/distributed/c10d/reducer.cpp; Li et
 * al., "PyTorch Distributed", VLDB 2020). Gradients are one flat array, so a bucket is a slice of
 * it, and nothing is copied in or out. */
#ifndef COMMON_COMM_DDP_H
#define COMMON_COMM_DDP_H

#include <stdbool.h>

#include "common/base/memory.h"
#include "common/comm/process_group.h"

/* Neighbouring parameters whose gradients travel together: one slice of the gradients. */
typedef struct {
    size_t offset, numel;
    int first_parameter, num_parameters;
    int uses, pending; // the sum of its parameters' uses; marks to come in this backward pass
    Work work;
} Bucket;

typedef struct {
    ProcessGroup *pg;
    CommHook comm_hook; // NULL if buckets are sent by all_reduce_async
    void *comm_state; // passed to the hook
    float *grads;
    const Tensor *parameter;
    int num_parameters;
    Bucket *bucket; // bucket 0 is the end of the gradients
    int num_buckets;
    int next; // bucket to send next: in index order, the same on every rank
    int *bucket_of; // bucket index of each parameter; undefined for frozen ones
    int *uses; // uses of each parameter: see reducer_set_uses
    int *marks; // marks of each parameter in this backward pass: complete when equal to uses
    double bucket_cap_mb;
    bool sync; // see reducer_set_sync
    bool has_spare; // see reducer_spare
} Reducer;

/* Cuts the gradients into buckets from their end, where the backward pass starts: the first closes
 * at 1 MiB (so that communication begins early), the others at args->bucket_cap_mb; a cap below 1
 * holds for the first too. Parameters must be contiguous in grads and in the order of the forward
 * pass. The buckets are the same on every rank, without communication. */
void reducer_init(Reducer *reducer, const Args *args, ProcessGroup *pg, float *grads,
                  const Tensor *parameter, int num_parameters);

/* Sends buckets through `hook` from now on. It must be the same on every rank; do not call this
 * while buckets are in flight. reducer_init registers process_group_set_nodes's hook, if any. */
void reducer_register_comm_hook(Reducer *reducer, CommHook hook, void *state);

/* Sets how many layers add to the gradient of each parameter in a backward pass (default 1). Tied
 * parameters, which several layers share, have more: they are ready at the last mark. Frozen ones
 * have 0 (requires_grad = False): they are in no bucket and are never marked. PyTorch finds both in
 * its graph. Call it before the first backward pass, with the same numbers on every rank. */
void reducer_set_uses(Reducer *reducer, const int *uses);

/* Returns the address of a float that travels with the first bucket from now on and is averaged
 * like a gradient: grads must have room for one more behind them. The caller writes it on any rank,
 * and reads the mean after reducer_finalize. Dies if the last parameter is frozen. Call it before
 * the first backward pass, on every rank. */
float *reducer_spare(Reducer *reducer);

/* Counts a use of parameter i that has added its gradient: the model's GradHook on a Reducer.
 * Starts the all-reduce of each bucket that is complete and next in order. Collective. */
void reducer_mark_ready(void *reducer, int i);

/* Waits, after the backward pass, until all gradients are the mean over the ranks. Dies if a
 * parameter got no gradient (beyond/unused allows that). Collective. */
void reducer_finalize(Reducer *reducer);

/* Turns sync on or off. While it is off (DDP's no_sync), gradients stay on their rank and add up;
 * the next backward pass with sync on sends the sum. */
void reducer_set_sync(Reducer *reducer, bool sync);

void reducer_free(Reducer *reducer);

#endif
