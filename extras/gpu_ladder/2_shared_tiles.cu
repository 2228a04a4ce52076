/*
 * Rung 2, tiles in shared memory: the block fetches each number once, for all of its threads. It
 * takes TILE numbers of its windows and filters at a time; the threads read them from there.
 */
#include "extras/gpu_ladder/conv2_cuda.h"

enum { TILE = 32, THREADS = TILE * TILE }; // a block computes TILE windows x TILE filters

static __global__ __launch_bounds__(THREADS) void shared_tiles(const float *x, const float *weight,
                                                               float *y)
{
    __shared__ float windows[TILE][TILE], filters[TILE][TILE + 1]; // + 1: see README.md
    const int window = blockIdx.x * TILE + threadIdx.y, filter = blockIdx.y * TILE + threadIdx.x;
    const int fetched = blockIdx.y * TILE + threadIdx.y; // the filter that this thread fetches from

    float sum = 0;
    for (int first = 0; first < DEPTH; first += TILE) {
        const int depth = first + threadIdx.x; // neighbours fetch neighbours
        windows[threadIdx.y][threadIdx.x] = x[window_begin(window) + window_offset(depth)];
        filters[threadIdx.y][threadIdx.x] = weight[fetched * DEPTH + depth];
        __syncthreads(); // all of the tile is there
        for (int i = 0; i < TILE; i++)
            sum += windows[threadIdx.y][i] * filters[threadIdx.x][i];
        __syncthreads(); // no thread needs it any more
    }
    y[window * FILTERS + filter] = sum;
}

void conv2_shared_tiles(const Conv2 *conv)
{
    const dim3 grid(conv->images * WINDOWS / TILE, FILTERS / TILE), block(TILE, TILE);
    LAUNCH(shared_tiles, grid, block, conv->stream, conv->x, conv->weight, conv->y);
}
