/*
 * torch_ddp.h - averages gradients as PyTorch's DistributedDataParallel does, call by call, so that
 * ranks of both kinds train one model. For a model without buffers; find_unused_parameters=False.
 *
 *     construction        all_gather how many parameters, broadcast their shapes, then their values
 *     first step          all_reduce one bucket of all gradients, in the order of parameters()
 *     second step         broadcast rank 0's buckets, then all_reduce each of them
 *     later steps         all_reduce each of them
 *
 * Rank 0's buckets follow the order in which its gradients got ready in the first backward pass:
 * ours has a layer's bias after its weight, PyTorch's maybe before it. So a bucket is any list of
 * parameters, and gradients are copied into it, in PyTorch's layout, unlike in ddp.h. They are
 * multiplied by 1 / n before they are summed: PyTorch's bits.
 */
#ifndef BEYOND_GLOO_TORCH_DDP_H
#define BEYOND_GLOO_TORCH_DDP_H

#include "common/comm/process_group.h"
#include "common/nn/model.h"

typedef struct {
    int first, count; // its parameters: order[first] ...
    int pending; // parameters whose gradients are to come in this backward pass
    size_t offset, numel; // its slice of `flat`
    Work work;
} TorchBucket;

typedef struct {
    ProcessGroup *pg;
    Model *model;
    TorchBucket bucket[MODEL_MAX_PARAMETERS];
    int num_buckets;
    int next; // bucket to send next
    int order[MODEL_MAX_PARAMETERS]; // parameters, bucket after bucket
    size_t place[MODEL_MAX_PARAMETERS]; // where each parameter's gradient is in `flat`
    int ready[MODEL_MAX_PARAMETERS], num_ready; // the order of the first backward pass
    double bucket_cap_mb;
    bool rebuilt;
    float *flat; // all buckets
} TorchDdp;

/* Compares the model with the other ranks' and gives all of them rank 0's parameters. Dies if they
 * differ. Collective. */
void torch_ddp_init(TorchDdp *ddp, const Args *args, ProcessGroup *pg, Model *model);

/* Call it before each forward pass of a training step: the second one brings rank 0's buckets.
 * Collective. */
void torch_ddp_forward(TorchDdp *ddp);

/* Copies the gradient of parameter i: the model's GradHook on a TorchDdp. Starts the all-reduce of
 * each bucket that is complete and next in order. Collective. */
void torch_ddp_mark_ready(void *ddp, int i);

/* Waits, after the backward pass, until all gradients are the mean over the ranks. Collective. */
void torch_ddp_finalize(TorchDdp *ddp);

void torch_ddp_free(TorchDdp *ddp);

#endif
