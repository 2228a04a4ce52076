/*
 * The dynamic loss scale (torch.amp.GradScaler), without the host: one pass looks for a gradient
 * that is not finite, then one block decides. It checks the gradients that the optimizer gets, the
 * mean over all ranks. Those are bitwise the same on every rank, and include any rank's overflow:
 * so all ranks decide alike without communication.
 */
#include <cuda_runtime.h>

#include "common/nn/cuda/cuda_kernels.h"
#include "common/nn/cuda/cuda_launch.h"
#include "common/nn/cuda/cuda_tree.h"

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
    next.unscale = found > 0 ? 0 : 1 / next.scale; // of this step; `scale` is the next one's
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
