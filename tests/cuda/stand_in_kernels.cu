/* The kernels are compiled as the project's are: by nvcc for a GPU, or by the stand-in's. */
#include "common/nn/cuda/cuda_launch.h"
#include "tests/cuda/stand_in_kernels.h"

static __global__ void saxpy(int n, float a, const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

void launch_saxpy(int n, float a, const float *x, float *y, int block, cudaStream_t stream)
{
    LAUNCH(saxpy, cuda_blocks(n, block), block, stream, n, a, x, y);
}

static __global__ void transpose(int rows, int columns, const float *x, float *y)
{
    __shared__ float tile[TILE][TILE + 1];
    const int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    if (row < rows && column < columns)
        tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
    __syncthreads();
    const int to_row = blockIdx.x * TILE + threadIdx.y, to_column = blockIdx.y * TILE + threadIdx.x;
    if (to_row < columns && to_column < rows)
        y[to_row * rows + to_column] = tile[threadIdx.x][threadIdx.y];
}

void launch_transpose(int rows, int columns, const float *x, float *y, cudaStream_t stream)
{
    const dim3 grid(cuda_blocks(columns, TILE), cuda_blocks(rows, TILE)), block(TILE, TILE);
    LAUNCH(transpose, grid, block, stream, rows, columns, x, y);
}

static __global__ void sum(const float *x, float *sums)
{
    __shared__ float tree[THREADS];
    const int thread = threadIdx.x;
    tree[thread] = x[blockIdx.x * THREADS + thread];
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half)
            tree[thread] += tree[thread + half];
    }
    if (thread == 0)
        sums[blockIdx.x] = tree[0];
}

void launch_sum(int blocks, const float *x, float *sums, cudaStream_t stream)
{
    LAUNCH(sum, blocks, THREADS, stream, x, sums);
}

static __global__ void sum_without_barrier(const float *x, float *sums)
{
    __shared__ float tree[THREADS];
    const int thread = threadIdx.x;
    tree[thread] = x[blockIdx.x * THREADS + thread];
    for (int half = THREADS / 2; half > 0; half /= 2) // as if a warp were the whole block
        if (thread < half)
            tree[thread] += tree[thread + half];
    if (thread == 0)
        sums[blockIdx.x] = tree[0];
}

void launch_sum_without_barrier(int blocks, const float *x, float *sums, cudaStream_t stream)
{
    LAUNCH(sum_without_barrier, blocks, THREADS, stream, x, sums);
}

static __global__ void rounds(const float *x, float *y, bool barrier_after_read)
{
    __shared__ float value[THREADS];
    const int thread = threadIdx.x;
    float own = x[thread];
    for (int round = 0; round < ROUNDS; round++) {
        value[thread] = own;
        __syncthreads();
        own += value[(thread + 1) % THREADS] + value[(thread + THREADS - 1) % THREADS];
        if (barrier_after_read)
            __syncthreads();
    }
    y[thread] = own;
}

void launch_rounds(const float *x, float *y, bool barrier_after_read, cudaStream_t stream)
{
    LAUNCH(rounds, 1, THREADS, stream, x, y, barrier_after_read);
}

static __global__ void half_barrier(float *y)
{
    if (threadIdx.x < THREADS / 2)
        __syncthreads();
    y[threadIdx.x] = 1;
}

void launch_half_barrier(float *y, cudaStream_t stream)
{
    LAUNCH(half_barrier, 1, THREADS, stream, y);
}

static __global__ void two_barriers(float *y)
{
    if (threadIdx.x < THREADS / 2)
        __syncthreads();
    else
        __syncthreads();
    y[threadIdx.x] = 1;
}

void launch_two_barriers(float *y, cudaStream_t stream)
{
    LAUNCH(two_barriers, 1, THREADS, stream, y);
}

static __global__ void read_at(const float *x, long i, float *y)
{
    y[0] = x[i];
}

void launch_read_at(const float *x, long i, float *y, cudaStream_t stream)
{
    LAUNCH(read_at, 1, 1, stream, x, i, y);
}

static __global__ void write_at(float *y, long i)
{
    y[i] = 1;
}

void launch_write_at(float *y, long i, cudaStream_t stream)
{
    LAUNCH(write_at, 1, 1, stream, y, i);
}

static __global__ void read_four_at(const float *x, int i, float *y)
{
    *(Pack<float, 4> *)y = *(const Pack<float, 4> *)(x + i);
}

void launch_read_four_at(const float *x, int i, float *y, cudaStream_t stream)
{
    LAUNCH(read_four_at, 1, 1, stream, x, i, y);
}

static __global__ void read_product(const float *x, int i, int j, float *y)
{
    y[0] = x[i * j];
}

void launch_read_product(const float *x, int i, int j, float *y, cudaStream_t stream)
{
    LAUNCH(read_product, 1, 1, stream, x, i, j, y);
}
