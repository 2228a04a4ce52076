/*
 * Rung 7, two buffers: while a slice is multiplied, the next one is on its way into the other
 * buffer. cp.async copies bytes and cannot round, so the numbers lie in memory as fp16 already.
 */
#include <cuda_pipeline_primitives.h>

#include "extras/gpu_ladder/conv2_cuda.h"

enum { TILE = 64 }; // a block computes TILE windows x TILE filters
enum { SLICE = 32, PITCH = SLICE + 8 }; // numbers of each that are in shared memory at a time
enum { WIDE = 8, PIECES = SLICE / WIDE }; // a thread fetches WIDE numbers, 16 bytes, at once
enum { BUFFERS = 2 };
enum { WARP = 32, THREADS = 2 * WARP };
enum { ROWS = 2, COLUMNS = 8 }; // of a warp, in instructions of 16 x 8

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 750 // gpu_ladder.c does not run it on such a GPU
static inline __device__ void multiply(float *, const __half *, const __half *)
{
}
#else
/* Adds a[16][8] b[8][8]^T to sum[16][8]. Each thread of the warp has its piece of all three. */
static inline __device__ void multiply(float *sum, const __half *a, const __half *b)
{
    const unsigned upper = *(const unsigned *)a, lower = *(const unsigned *)(a + 8 * PITCH);
    const unsigned right = *(const unsigned *)b; // two numbers, as the others
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(upper), "r"(lower), "r"(right));
}
#endif

/* Starts to copy a slice, and does not wait for it. */
static inline __device__ void fetch(__half (*windows)[PITCH], __half (*filters)[PITCH],
                                    const __half *x, const __half *weight, int first)
{
    for (int i = threadIdx.x; i < TILE * PIECES; i += THREADS) {
        const int row = i / PIECES, at = i % PIECES * WIDE; // neighbours fetch neighbours
        const int begin = window_begin(blockIdx.x * TILE + row);
        __pipeline_memcpy_async(&windows[row][at], &x[begin + window_offset(first + at)], 16);
        __pipeline_memcpy_async(&filters[row][at], &weight[row * DEPTH + first + at], 16);
    }
}

static __global__ void two_buffers(const __half *x, const __half *weight, float *y)
{
    alignas(16) __shared__ __half windows[BUFFERS][TILE][PITCH]; // written in eights
    alignas(16) __shared__ __half filters[BUFFERS][TILE][PITCH];
    const int line = threadIdx.x % WARP / 4, two = threadIdx.x % 4 * 2; // where its pieces begin
    const int window = threadIdx.x / WARP * ROWS * 16 + line, filter = line;

    float sum[ROWS][COLUMNS][4] = {};
    fetch(windows[0], filters[0], x, weight, 0);
    __pipeline_commit();
    for (int first = 0; first < DEPTH; first += SLICE) {
        const int buffer = first / SLICE % BUFFERS, next = first + SLICE;
        if (next < DEPTH)
            fetch(windows[1 - buffer], filters[1 - buffer], x, weight, next);
        __pipeline_commit(); // of nothing, after the last slice, so that the wait stays the same
        __pipeline_wait_prior(1); // for all that was committed but the newest
        __syncthreads(); // all of the tile is there
        for (int i = 0; i < SLICE; i += 8) {
            for (int row = 0; row < ROWS; row++)
                for (int column = 0; column < COLUMNS; column++)
                    multiply(sum[row][column], &windows[buffer][window + row * 16][i + two],
                             &filters[buffer][filter + column * 8][i + two]);
        }
        __syncthreads(); // no thread needs it any more
    }
    y += blockIdx.x * TILE * FILTERS; // the block's part
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            for (int i = 0; i < 4; i++)
                y[(window + row * 16 + i / 2 * 8) * FILTERS + column * 8 + two + i % 2] =
                    sum[row][column][i];
}

void conv2_two_buffers(const Conv2 *conv)
{
    const int blocks = conv->images * WINDOWS / TILE;
    LAUNCH(two_buffers, blocks, THREADS, conv->stream, (const __half *)conv->x16,
           (const __half *)conv->weight16, conv->y);
}
