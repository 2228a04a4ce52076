/*
 * The sum of each column of a matrix: gradients of biases. In a block, a warp reads 32 columns of a
 * row at once and every WARPS-th row; then the warps' sums are added as a tree. Many rows are cut
 * into parts with a block for each, and a second launch sums the parts. The order of additions
 * depends on the number of rows alone: every run gives the same bits.
 */
#include "common/nn/cuda/cuda_launch.h"

enum { LANES = 32, WARPS = 16, ROWS_PER_PART = 128 };

/* Part blockIdx.y of the rows: sums[part][column] = or += its sums. */
static __global__ void sum_rows(size_t rows, int columns, const float *y, float scale,
                                float *values, bool add, float *sums)
{
    __shared__ float tree[WARPS][LANES];
    const int lane = threadIdx.x, warp = threadIdx.y, column = blockIdx.x * LANES + lane;
    const size_t end = rows * (blockIdx.y + 1) / gridDim.y;
    float sum = 0;
    if (column < columns)
        for (size_t row = rows * blockIdx.y / gridDim.y + warp; row < end; row += WARPS) {
            const size_t i = row * columns + column;
            float value = values[i];
            if (y != NULL)
                values[i] = value = relu_gradient(y[i], scale, value);
            sum += value;
        }
    tree[warp][lane] = sum;
    for (int half = WARPS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (warp < half)
            tree[warp][lane] += tree[warp + half][lane];
    }
    if (warp == 0 && column < columns) {
        float *to = &sums[(size_t)blockIdx.y * columns + column];
        *to = add ? *to + tree[0][lane] : tree[0][lane];
    }
}

extern "C" void cuda_sum_rows(size_t rows, int columns, const float *y, float scale, float *dy,
                              float *partial, float *sums, cudaStream_t stream)
{
    unsigned parts = cuda_blocks(rows, ROWS_PER_PART);
    if (parts > CUDA_SUM_PARTS)
        parts = CUDA_SUM_PARTS;
    const dim3 block(LANES, WARPS), one(cuda_blocks(columns, LANES)), grid(one.x, parts);
    if (parts == 1) {
        LAUNCH(sum_rows, grid, block, stream, rows, columns, y, scale, dy, true, sums);
        return;
    }
    LAUNCH(sum_rows, grid, block, stream, rows, columns, y, scale, dy, false, partial);
    LAUNCH(sum_rows, one, block, stream, parts, columns, (const float *)NULL, 1.0f, partial, true,
           sums);
}
