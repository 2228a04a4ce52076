/*
 * Rung 4, tiles in registers: no matrix of windows, as in rung 2, and each thread computes ROWS
 * windows x COLUMNS filters. So it uses a number that it reads from shared memory eight times. A
 * product like this, which makes up the matrix of windows as it goes, is called an implicit GEMM.
 */
#include "extras/gpu_ladder/conv2_cuda.h"

enum { TILE = 64 }; // a block computes TILE windows x TILE filters
enum { SLICE = 32, PITCH = SLICE + 1 }; // numbers of each that are in shared memory at a time
enum { SIDE = 8, THREADS = SIDE * SIDE };
enum { ROWS = TILE / SIDE, COLUMNS = TILE / SIDE }; // of a thread

static __global__ void register_tiles(const float *x, const float *weight, float *y)
{
    __shared__ float windows[TILE][PITCH], filters[TILE][PITCH];
    const int window = threadIdx.x / SIDE, filter = threadIdx.x % SIDE; // and every SIDE-th after

    float sum[ROWS][COLUMNS] = {};
    for (int first = 0; first < DEPTH; first += SLICE) {
        for (int i = threadIdx.x; i < TILE * SLICE; i += THREADS) {
            const int row = i / SLICE, depth = first + i % SLICE; // neighbours fetch neighbours
            const int begin = window_begin(blockIdx.x * TILE + row);
            windows[row][i % SLICE] = x[begin + window_offset(depth)];
            filters[row][i % SLICE] = weight[row * DEPTH + depth];
        }
        __syncthreads(); // all of the tile is there
        for (int i = 0; i < SLICE; i++) {
            float a[ROWS], b[COLUMNS];
            for (int row = 0; row < ROWS; row++)
                a[row] = windows[window + row * SIDE][i];
            for (int column = 0; column < COLUMNS; column++)
                b[column] = filters[filter + column * SIDE][i];
            for (int row = 0; row < ROWS; row++)
                for (int column = 0; column < COLUMNS; column++)
                    sum[row][column] += a[row] * b[column];
        }
        __syncthreads(); // no thread needs it any more
    }
    y += blockIdx.x * TILE * FILTERS; // the block's part
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            y[(window + row * SIDE) * FILTERS + filter + column * SIDE] = sum[row][column];
}

void conv2_register_tiles(const Conv2 *conv)
{
    const int blocks = conv->images * WINDOWS / TILE;
    LAUNCH(register_tiles, blocks, THREADS, conv->stream, conv->x, conv->weight, conv->y);
}
