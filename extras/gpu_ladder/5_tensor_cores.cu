/*
 * Rung 5, tensor cores: a warp multiplies 16 windows with 8 filters in one instruction. Its
 * operands are fp16, so numbers are rounded on their way into shared memory; the sums stay float.
 */
#include "extras/gpu_ladder/conv2_cuda.h"

enum { TILE = 64 }; // a block computes TILE windows x TILE filters
enum { SLICE = 32, PITCH = SLICE + 8 }; // numbers of each that are in shared memory at a time
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

static __global__ void tensor_cores(const float *x, const float *weight, float *y)
{
    alignas(4) __shared__ __half windows[TILE][PITCH], filters[TILE][PITCH]; // read in twos
    const int line = threadIdx.x % WARP / 4, two = threadIdx.x % 4 * 2; // where its pieces begin
    const int window = threadIdx.x / WARP * ROWS * 16 + line, filter = line;

    float sum[ROWS][COLUMNS][4] = {};
    for (int first = 0; first < DEPTH; first += SLICE) {
        for (int i = threadIdx.x; i < TILE * SLICE; i += THREADS) {
            const int row = i / SLICE, depth = first + i % SLICE; // neighbours fetch neighbours
            const int begin = window_begin(blockIdx.x * TILE + row);
            windows[row][i % SLICE] = __float2half(x[begin + window_offset(depth)]);
            filters[row][i % SLICE] = __float2half(weight[row * DEPTH + depth]);
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

void conv2_tensor_cores(const Conv2 *conv)
{
    const int blocks = conv->images * WINDOWS / TILE;
    LAUNCH(tensor_cores, blocks, THREADS, conv->stream, conv->x, conv->weight, conv->y);
}
