/* The first convolution: one channel under filters of 3 x 3. Nine products per unit are too few for
 * a matrix product; what matters is that the large output is written once, and in the backward pass
 * read once. A warp computes a row of the output, one channel per lane, so that 32 adjacent numbers
 * are accessed together. It walks along the row with the window in registers; each step loads three
 * new pixels, the same for all lanes. The gradient's nine sums, and the bias's, are in registers
 * too. */
#include "common/nn/cuda/cuda_launch.h"

enum { LANES = 32, WARPS = 8, TAPS = 9, MAX_PARTS = 1024 };

/* Moves the window one column on, to the left edge `column`. */
static inline __device__ void shift_window(const float *top, int in_size, int column,
                                           float window[TAPS])
{
    for (int ky = 0; ky < 3; ky++) {
        window[3 * ky] = window[3 * ky + 1];
        window[3 * ky + 1] = window[3 * ky + 2];
        window[3 * ky + 2] = top[ky * in_size + column + 2];
    }
}

/* Loads two columns of the first window; shift_window loads the third. */
static inline __device__ void start_window(const float *top, int in_size, float window[TAPS])
{
    for (int ky = 0; ky < 3; ky++) {
        window[3 * ky + 1] = top[ky * in_size];
        window[3 * ky + 2] = top[ky * in_size + 1];
    }
}

static inline __device__ const float *window_top(const float *x, int size, int row)
{
    const int in_size = size + 2;
    return x + (size_t)(row / size * in_size + row % size) * in_size;
}

static __global__ void first_conv(int rows, int size, int channels, const float *x,
                                  const float *weight, const float *bias, float *y)
{
    const int row = blockIdx.x * WARPS + threadIdx.y, c = blockIdx.y * LANES + threadIdx.x;
    if (row >= rows || c >= channels)
        return;
    float filter[TAPS], window[TAPS];
    for (int i = 0; i < TAPS; i++)
        filter[i] = weight[c * TAPS + i];
    const float *top = window_top(x, size, row);
    float *unit = y + (size_t)row * size * channels + c;
    start_window(top, size + 2, window);
    for (int column = 0; column < size; column++, unit += channels) {
        shift_window(top, size + 2, column, window);
        float sum = 0;
        for (int i = 0; i < TAPS; i++)
            sum += window[i] * filter[i];
        *unit = sum + bias[c] < 0 ? 0 : sum + bias[c];
    }
}

extern "C" void cuda_first_conv(ConvShape shape, int n, const float *x, const float *weight,
                                const float *bias, float *y, cudaStream_t stream)
{
    const int size = conv_out_size(shape), channels = shape.out_channels;
    const dim3 grid(cuda_blocks((size_t)n * size, WARPS), cuda_blocks(channels, LANES));
    const dim3 block(LANES, WARPS);
    LAUNCH(first_conv, grid, block, stream, n * size, size, channels, x, weight, bias, y);
}

/* Sums over part blockIdx.x of the rows, for 32 channels. */
static __global__ void first_conv_grad(int rows, int size, int channels, const float *x,
                                       const float *y, float scale, const float *dy, float *partial)
{
    __shared__ float tree[WARPS][TAPS + 1][LANES];
    const int lane = threadIdx.x, warp = threadIdx.y, c = blockIdx.y * LANES + lane;
    const int end = (int)((size_t)rows * (blockIdx.x + 1) / gridDim.x);
    float sums[TAPS + 1] = {}, window[TAPS];
    if (c < channels)
        for (int row = (int)((size_t)rows * blockIdx.x / gridDim.x) + warp; row < end;
             row += WARPS) {
            const float *top = window_top(x, size, row);
            size_t unit = (size_t)row * size * channels + c;
            start_window(top, size + 2, window);
            for (int column = 0; column < size; column++, unit += channels) {
                shift_window(top, size + 2, column, window);
                const float gradient = relu_gradient(y[unit], scale, dy[unit]);
                for (int i = 0; i < TAPS; i++)
                    sums[i] += gradient * window[i];
                sums[TAPS] += gradient;
            }
        }

    for (int i = 0; i < TAPS + 1; i++)
        tree[warp][i][lane] = sums[i];
    for (int half = WARPS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (warp < half)
            for (int i = 0; i < TAPS + 1; i++)
                tree[warp][i][lane] += tree[warp + half][i][lane];
    }
    if (warp == 0 && c < channels)
        for (int i = 0; i < TAPS + 1; i++)
            partial[((size_t)blockIdx.x * channels + c) * (TAPS + 1) + i] = tree[0][i][lane];
}

extern "C" int cuda_first_conv_parts(ConvShape shape, int n)
{
    const int blocks = (int)cuda_blocks((size_t)n * conv_out_size(shape), WARPS);
    return blocks < MAX_PARTS ? blocks : MAX_PARTS;
}

enum { ADDERS = 32 }; // warps that divide the parts

static __global__ void first_conv_add(int parts, int numel, const float *partial, float *dweight,
                                      float *dbias)
{
    __shared__ float tree[ADDERS][LANES];
    const int lane = threadIdx.x, warp = threadIdx.y, i = blockIdx.x * LANES + lane;
    float sum = 0;
    if (i < numel)
        for (int part = warp; part < parts; part += ADDERS)
            sum += partial[(size_t)part * numel + i];
    tree[warp][lane] = sum;
    for (int half = ADDERS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (warp < half)
            tree[warp][lane] += tree[warp + half][lane];
    }
    const int c = i / (TAPS + 1), tap = i % (TAPS + 1);
    if (warp == 0 && i < numel)
        *(tap < TAPS ? &dweight[c * TAPS + tap] : &dbias[c]) += tree[0][lane];
}

extern "C" void cuda_first_conv_grad(ConvShape shape, int n, const float *x, const float *y,
                                     float scale, const float *dy, float *partial, float *dweight,
                                     float *dbias, cudaStream_t stream)
{
    const int size = conv_out_size(shape), channels = shape.out_channels;
    const int parts = cuda_first_conv_parts(shape, n), numel = channels * (TAPS + 1);
    const dim3 grid(parts, cuda_blocks(channels, LANES)), block(LANES, WARPS);
    LAUNCH(first_conv_grad, grid, block, stream, n * size, size, channels, x, y, scale, dy,
           partial);
    LAUNCH(first_conv_add, cuda_blocks(numel, LANES), dim3(LANES, ADDERS), stream, parts, numel,
           partial, dweight, dbias);
}
