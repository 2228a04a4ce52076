/*
 * The dynamic loss scale (torch.amp.GradScaler), without the host: one pass looks for a gradient
 * that is no finite number, then one block decides. It looks at the gradients as the optimizer gets
 * them, the mean over all ranks. Those are the same bits on every rank, and one rank's overflow is
 * in everybody's mean: so all ranks decide alike, and nobody has to ask.
 */
#include <cuda_runtime.h>

#include "common/nn/cuda_kernels.h"
#include "common/nn/cuda_launch.h"
#include "common/nn/cuda_tree.h"

enum { BLOCK = CUDA_FINITE_PARTS, GROWTH_INTERVAL = 2000 };

static __global__ void find_nonfinite(size_t count, const float *grads, int32_t *partial)
{
    __shared__ int32_t tree[BLOCK];
    int32_t found = 0;
    const size_t stride = (size_t)gridDim.x * BLOCK;
    for (size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x; i < count; i += stride)
        found += !isfinite(grads[i]);
    found = block_sum<int32_t, BLOCK>(found > 0, tree, threadIdx.x);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = found;
}

static __global__ void decide(const int32_t *partial, LossScale *loss_scale)
{
    __shared__ int32_t tree[BLOCK];
    const int32_t found = block_sum<int32_t, BLOCK>(partial[threadIdx.x] > 0, tree, threadIdx.x);
    if (threadIdx.x > 0)
        return;
    LossScale next = *loss_scale;
    next.unscale = found > 0 ? 0 : 1 / next.scale; // of this step; the scale is for the next
    if (found > 0) {
        next.scale *= 0.5f;
        next.good_steps = 0;
        next.skipped++;
    } else if (++next.good_steps == GROWTH_INTERVAL) {
        next.scale = isfinite(next.scale * 2) ? next.scale * 2 : next.scale;
        next.good_steps = 0;
    }
    *loss_scale = next;
}

extern "C" void cuda_update_loss_scale(size_t count, const float *grads, int32_t *partial,
                                       LossScale *loss_scale, cudaStream_t stream)
{
    LAUNCH(find_nonfinite, CUDA_FINITE_PARTS, BLOCK, stream, count, grads, partial);
    LAUNCH(decide, 1, BLOCK, stream, partial, loss_scale);
}
