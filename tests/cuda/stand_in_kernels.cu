/* The kernels are compiled like the project's, by nvcc for a GPU or for the stand-in. */
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

static inline __device__ void mma_8(bool bf16, float *c, const unsigned *a, const unsigned *b)
{
    if (bf16)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]));
    else
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

/* Reads the sums from other registers than it writes them to. */
static inline __device__ void mma_16(bool bf16, float *c, const unsigned *a, const unsigned *b)
{
    float d[4];
    if (bf16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]),
                       "f"(c[1]), "f"(c[2]), "f"(c[3]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                     : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]),
                       "f"(c[1]), "f"(c[2]), "f"(c[3]));
    for (int i = 0; i < 4; i++)
        c[i] = d[i];
}

/* Multiplies each warp's own matrices. */
static __global__ void mma(int depth, bool bf16, const unsigned *a, const unsigned *b, float *c)
{
    const int warp = threadIdx.x / 32, line = threadIdx.x % 32 / 4, two = threadIdx.x % 4;
    const int words = depth / 2; // words per row
    a += warp * 16 * words;
    b += warp * 8 * words;
    c += warp * 16 * 8;
    unsigned own_a[4], own_b[2];
    float own_c[4];
    for (int i = 0; i < depth / 4; i++)
        own_a[i] = a[(line + i % 2 * 8) * words + two + i / 2 * 4];
    for (int i = 0; i < depth / 8; i++)
        own_b[i] = b[line * words + two + i * 4];
    for (int i = 0; i < 4; i++)
        own_c[i] = c[(line + i / 2 * 8) * 8 + two * 2 + i % 2];
    if (depth == 8)
        mma_8(bf16, own_c, own_a, own_b);
    else
        mma_16(bf16, own_c, own_a, own_b);
    for (int i = 0; i < 4; i++)
        c[(line + i / 2 * 8) * 8 + two * 2 + i % 2] = own_c[i];
}

void launch_mma(int threads, int depth, bool bf16, const unsigned *a, const unsigned *b, float *c,
                cudaStream_t stream)
{
    LAUNCH(mma, 1, threads, stream, depth, bf16, a, b, c);
}

/* Each warp multiplies as often as its number, before a barrier of all. */
static __global__ void mma_in_turn(float *sums)
{
    __shared__ float total[4];
    float c[4] = { 0, 0, 0, 0 };
    const unsigned ones[2] = { 0x3c003c00, 0x3c003c00 }; // fp16
    for (unsigned i = 0; i <= threadIdx.x / 32; i++)
        mma_8(false, c, ones, ones);
    if (threadIdx.x % 32 == 0)
        total[threadIdx.x / 32] = c[0];
    __syncthreads();
    sums[threadIdx.x] = total[(threadIdx.x / 32 + 1) % 4];
}

void launch_mma_in_turn(float *sums, cudaStream_t stream)
{
    LAUNCH(mma_in_turn, 1, 128, stream, sums);
}

static __global__ void half_mma(float *c)
{
    const unsigned ones[2] = { 0x3c003c00, 0x3c003c00 };
    if (threadIdx.x % 32 < 16)
        mma_8(false, c + threadIdx.x * 4, ones, ones);
}

void launch_half_mma(float *c, cudaStream_t stream)
{
    LAUNCH(half_mma, 1, THREADS, stream, c);
}

static __global__ void wrong_mma(bool operands, float *c)
{
    const unsigned x = 0;
    if (operands)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %4}, {%0}, {%0, %1, %2, %3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(x));
    else
        asm volatile("ex2.approx.f32 %0, %1;" : "=f"(c[0]) : "f"(c[1]));
}

void launch_wrong_mma(bool operands, float *c, cudaStream_t stream)
{
    LAUNCH(wrong_mma, 1, 32, stream, operands, c);
}
