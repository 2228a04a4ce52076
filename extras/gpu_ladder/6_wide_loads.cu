/*
 * Rung 6, wide loads: a thread fetches four neighbours with one load of 16 bytes, and writes them
 * as fp16 with one store. So a quarter of the instructions fetches as much.
 */
#include "extras/gpu_ladder/conv2_cuda.h"

enum { TILE = 64 }; // a block computes TILE windows x TILE filters
enum { SLICE = 32, PITCH = SLICE + 8 }; // numbers of each that are in shared memory at a time
enum { WIDE = 4, PIECES = SLICE / WIDE }; // a thread fetches WIDE numbers at once
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

static inline __device__ void copy_wide(__half *to, const float *from)
{
    const float4 four = *(const float4 *)from;
    const Pack<__half, WIDE> rounded = { { __float2half(four.x), __float2half(four.y),
                                           __float2half(four.z), __float2half(four.w) } };
    store_pack(to, rounded);
}

static __global__ void wide_loads(const float *x, const float *weight, float *y)
{
    alignas(8) __shared__ __half windows[TILE][PITCH], filters[TILE][PITCH]; // written in fours
    const int line = threadIdx.x % WARP / 4, two = threadIdx.x % 4 * 2; // where its pieces begin
    const int window = threadIdx.x / WARP * ROWS * 16 + line, filter = line;

    float sum[ROWS][COLUMNS][4] = {};
    for (int first = 0; first < DEPTH; first += SLICE) {
        for (int i = threadIdx.x; i < TILE * PIECES; i += THREADS) {
            const int row = i / PIECES, at = i % PIECES * WIDE; // neighbours fetch neighbours
            const int begin = window_begin(blockIdx.x * TILE + row);
            copy_wide(&windows[row][at], &x[begin + window_offset(first + at)]);
            copy_wide(&filters[row][at], &weight[row * DEPTH + first + at]);
        }
        __syncthreads(); // all of the tile is there
        for (int i = 0; i < SLICE; i += 8) {
            for (int row = 0; row < ROWS; row++)
                for (int column = 0; column < COLUMNS; column++)
                    multiply(sum[row][column], &windows[window + row * 16][i + two],
                             &filters[filter + column * 8][i + two]);
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

void conv2_wide_loads(const Conv2 *conv)
{
    const int blocks = conv->images * WINDOWS / TILE;
    LAUNCH(wide_loads, blocks, THREADS, conv->stream, conv->x, conv->weight, conv->y);
}
