/*
 * bf16 is the upper half of a float: the same range, 8 bits of precision. Each rank divides before
 * it sends, as PyTorch does, and the all-reduce sums in bf16, so each addition rounds again.
 */
#include "beyond/comm_hooks/bf16_hook.h"

#include <stdlib.h>

#include "beyond/bf16.h"
#include "common/base/log.h"

/* The CommHook. Gradients are rounded, then divided, and rounded again, as in PyTorch. */
static Work compress(void *state, float *grads, size_t numel)
{
    Bf16Hook *hook = state;
    ProcessGroup *pg = hook->reducer->pg;
    uint16_t *compressed = hook->compressed + (grads - hook->reducer->grads);
    for (size_t i = 0; i < numel; i++)
        compressed[i] = to_bf16(from_bf16(to_bf16(grads[i])) / (float)pg->world_size);
    return all_reduce_async(pg, compressed, numel, BFLOAT16, REDUCE_SUM);
}

void bf16_hook_decompress(Bf16Hook *hook)
{
    const Reducer *reducer = hook->reducer;
    for (int b = 0; reducer->sync && b < reducer->num_buckets; b++) {
        const Bucket *bucket = &reducer->bucket[b];
        for (size_t i = bucket->offset; i < bucket->offset + bucket->numel; i++)
            reducer->grads[i] = from_bf16(hook->compressed[i]);
    }
}

void bf16_hook_init(Bf16Hook *hook, Reducer *reducer)
{
    if (reducer->pg->place.on_gpu)
        usage_error("this hook is for --device cpu: it rounds gradients in host memory");
    const Tensor *last = &reducer->parameter[reducer->num_parameters - 1];
    hook->reducer = reducer;
    hook->compressed = mem_calloc(last->offset + last->numel, sizeof *hook->compressed);
    reducer_register_comm_hook(reducer, compress, hook);
}

void bf16_hook_free(Bf16Hook *hook)
{
    free(hook->compressed);
}
