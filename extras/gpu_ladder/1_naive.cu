/*
 * Rung 1, naive: a thread for each number of the result, which fetches its window and its filter
 * from memory by itself.
 */
#include "extras/gpu_ladder/conv2_cuda.h"

enum { TILE = 32, THREADS = TILE * TILE }; // a block computes TILE windows x TILE filters

static __global__ __launch_bounds__(THREADS) void naive(const float *x, const float *weight,
                                                        float *y)
{
    const int window = blockIdx.x * TILE + threadIdx.y, filter = blockIdx.y * TILE + threadIdx.x;

    float sum = 0;
    for (int depth = 0; depth < DEPTH; depth++)
        sum += x[window_begin(window) + window_offset(depth)] * weight[filter * DEPTH + depth];
    y[window * FILTERS + filter] = sum;
}

void conv2_naive(const Conv2 *conv)
{
    const dim3 grid(conv->images * WINDOWS / TILE, FILTERS / TILE), block(TILE, TILE);
    LAUNCH(naive, grid, block, conv->stream, conv->x, conv->weight, conv->y);
}
