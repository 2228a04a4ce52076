/*
 * A bucket is sent when all its gradients are complete, on every rank. So a parameter that this
 * rank did not use is marked ready too, at the end of the pass, as other ranks may have a gradient.
 */
#include "beyond/unused/unused.h"

#include <stdlib.h>

#include "common/base/log.h"

void unused_init(Unused *unused, Reducer *reducer)
{
    if (reducer->pg->place.on_gpu)
        usage_error("find_unused_parameters is for --device cpu: it keeps gradients in host "
                    "memory");
    const Tensor *last = &reducer->parameter[reducer->num_parameters - 1];
    *unused = (Unused){ .reducer = reducer };
    unused->used = mem_calloc((size_t)reducer->num_parameters, sizeof *unused->used);
    unused->kept = mem_calloc(last->offset + last->numel, sizeof *unused->kept);
}

void unused_free(Unused *unused)
{
    free(unused->kept);
    free(unused->used);
}

void unused_mark_ready(void *context, int i)
{
    Unused *unused = context;
    unused->used[i] = true;
    reducer_mark_ready(unused->reducer, i);
}

static void copy_gradient(const Tensor *p, float *to, const float *from)
{
    memcpy(to + p->offset, from + p->offset, p->numel * sizeof *to);
}

void unused_finalize(Unused *unused)
{
    Reducer *reducer = unused->reducer;
    if (!reducer->sync)
        return;
    const int n = reducer->num_parameters;
    for (int i = n - 1; i >= 0; i--)
        if (reducer->marks[i] < reducer->uses[i]) {
            copy_gradient(&reducer->parameter[i], unused->kept, reducer->grads);
            while (reducer->marks[i] < reducer->uses[i])
                reducer_mark_ready(reducer, i);
        }
    all_reduce(reducer->pg, unused->used, (size_t)n, UINT8, REDUCE_MAX);
    reducer_finalize(reducer);
    for (int i = 0; i < n; i++) {
        if (!unused->used[i])
            copy_gradient(&reducer->parameter[i], reducer->grads, unused->kept);
        unused->used[i] = false;
    }
}
