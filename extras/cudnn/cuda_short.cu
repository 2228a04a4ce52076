/*
 * The kernels of short.h. They compute what the kernels of common/nn/cuda compute, in float32 and
 * in the same order, and differ in what they load and store.
 */
#include "common/nn/cuda/cuda_launch.h"
#include "extras/cudnn/short.h"

enum { BLOCK = 256 };

/* Launches the kernel for the type that amp names; its void arrays are of that type. */
#define LAUNCH_SHORT(amp, kernel, ...) \
    do { \
        if ((amp) == AMP_BF16) \
            LAUNCH(kernel<__nv_bfloat16>, __VA_ARGS__); \
        else \
            LAUNCH(kernel<__half>, __VA_ARGS__); \
    } while (0)

template <typename T> static inline __device__ Pack<float, 4> load_wide(const T *from)
{
    const Pack<T, 4> numbers = load_pack<T, 4>(from);
    Pack<float, 4> wide;
    for (int j = 0; j < 4; j++)
        wide.value[j] = float(numbers.value[j]);
    return wide;
}

template <typename T> static inline __device__ void store_short(T *to, Pack<float, 4> numbers)
{
    Pack<T, 4> rounded;
    for (int j = 0; j < 4; j++)
        rounded.value[j] = T(numbers.value[j]);
    store_pack(to, rounded);
}

/* ---- the first convolution: a warp for a row of the output, a channel for each lane ---- */

enum { LANES = 32, WARPS = 8, TAPS = 9 };

static inline __device__ const float *window_top(const float *x, int size, int row)
{
    const int in_size = size + 2;
    return x + (size_t)(row / size * in_size + row % size) * in_size;
}

/* Moves the window to the left edge `column`; at column 0 it is loaded whole. */
static inline __device__ void move_window(const float *top, int in_size, int column,
                                          float window[TAPS])
{
    for (int ky = 0; ky < 3; ky++) {
        const float *line = top + ky * in_size + column;
        window[3 * ky] = column == 0 ? line[0] : window[3 * ky + 1];
        window[3 * ky + 1] = column == 0 ? line[1] : window[3 * ky + 2];
        window[3 * ky + 2] = line[2];
    }
}

template <typename T>
static __global__ void first_conv(int rows, int size, int channels, const float *x,
                                  const float *weight, const float *bias, void *y)
{
    const int row = blockIdx.x * WARPS + threadIdx.y, c = blockIdx.y * LANES + threadIdx.x;
    if (row >= rows || c >= channels)
        return;
    float filter[TAPS], window[TAPS];
    for (int i = 0; i < TAPS; i++)
        filter[i] = weight[c * TAPS + i];
    const float *top = window_top(x, size, row);
    T *unit = (T *)y + (size_t)row * size * channels + c;
    for (int column = 0; column < size; column++, unit += channels) {
        move_window(top, size + 2, column, window);
        float sum = 0;
        for (int i = 0; i < TAPS; i++)
            sum += window[i] * filter[i];
        *unit = T(sum + bias[c] < 0 ? 0.0f : sum + bias[c]);
    }
}

extern "C" void cuda_short_first_conv(ConvShape shape, int n, Amp amp, const float *x,
                                      const float *weight, const float *bias, void *y,
                                      cudaStream_t stream)
{
    const int size = conv_out_size(shape), channels = shape.out_channels;
    const dim3 grid(cuda_blocks((size_t)n * size, WARPS), cuda_blocks(channels, LANES));
    LAUNCH_SHORT(amp, first_conv, grid, dim3(LANES, WARPS), stream, n * size, size, channels, x,
                 weight, bias, y);
}

/* Computes part blockIdx.x of the rows, for 32 channels: nine weight sums and the bias sum. */
template <typename T>
static __global__ void first_conv_grad(int rows, int size, int channels, const float *x,
                                       const void *y, float scale, const void *dy, float *dweights,
                                       float *dbiases)
{
    __shared__ float tree[WARPS][LANES];
    const int lane = threadIdx.x, warp = threadIdx.y, c = blockIdx.y * LANES + lane;
    const int end = (int)((size_t)rows * (blockIdx.x + 1) / gridDim.x);
    float sums[TAPS + 1] = {}, window[TAPS];
    if (c < channels)
        for (int row = (int)((size_t)rows * blockIdx.x / gridDim.x) + warp; row < end;
             row += WARPS) {
            const float *top = window_top(x, size, row);
            size_t unit = (size_t)row * size * channels + c;
            for (int column = 0; column < size; column++, unit += channels) {
                move_window(top, size + 2, column, window);
                const float gradient =
                    relu_gradient(float(((const T *)y)[unit]), scale, float(((const T *)dy)[unit]));
                for (int i = 0; i < TAPS; i++)
                    sums[i] += gradient * window[i];
                sums[TAPS] += gradient;
            }
        }
    for (int i = 0; i < TAPS + 1; i++) {
        __syncthreads();
        tree[warp][lane] = sums[i];
        for (int half = WARPS / 2; half > 0; half /= 2) {
            __syncthreads();
            if (warp < half)
                tree[warp][lane] += tree[warp + half][lane];
        }
        float *to = i < TAPS ? &dweights[((size_t)blockIdx.x * channels + c) * TAPS + i]
                             : &dbiases[(size_t)blockIdx.x * channels + c];
        if (warp == 0 && c < channels)
            *to = tree[0][lane];
    }
}

extern "C" void cuda_short_first_conv_grad(ConvShape shape, int n, Amp amp, const float *x,
                                           const void *y, float scale, const void *dy,
                                           float *partial, float *dweight, float *dbias,
                                           cudaStream_t stream)
{
    const int size = conv_out_size(shape), channels = shape.out_channels;
    const int parts = cuda_first_conv_parts(shape, n);
    float *dbiases = partial + (size_t)parts * channels * TAPS;
    float *rest = dbiases + (size_t)parts * channels;
    const dim3 grid(parts, cuda_blocks(channels, LANES));
    LAUNCH_SHORT(amp, first_conv_grad, grid, dim3(LANES, WARPS), stream, n * size, size, channels,
                 x, y, scale, dy, partial, dbiases);
    cuda_sum_rows(parts, channels * TAPS, NULL, 1, partial, rest, dweight, stream);
    cuda_sum_rows(parts, channels, NULL, 1, dbiases, rest, dbias, stream);
}

/* ---- pooling; a thread has 4 channels ---- */

template <typename T>
static __global__ void pool(ConvShape shape, size_t count, const void *z, const float *bias,
                            void *y, uint8_t *argmax)
{
    const size_t i = my_index<BLOCK>() * 4;
    if (i >= count)
        return;
    const int size = out_size(shape), channels = shape.out_channels, pooled = size / 2;
    const int c = (int)(i % channels);
    const size_t unit = i / channels, image = unit / pooled / pooled;
    const size_t row = 2 * (unit / pooled % pooled), column = 2 * (unit % pooled);
    const T *above = (const T *)z + ((image * size + row) * size + column) * channels + c;
    Pack<float, 4> largest = load_wide(above);
    Pack<uint8_t, 4> which = {};
    for (int corner = 1; corner < 4; corner++) {
        const Pack<float, 4> other = load_wide(above + (corner / 2 * size + corner % 2) * channels);
        for (int j = 0; j < 4; j++)
            if (other.value[j] > largest.value[j] || isnan(other.value[j])) {
                largest.value[j] = other.value[j];
                which.value[j] = corner;
            }
    }
    for (int j = 0; j < 4; j++) {
        const float sum = largest.value[j] + bias[c + j];
        largest.value[j] = sum < 0 ? 0 : sum;
    }
    store_short((T *)y + i, largest);
    store_pack(argmax + i, which);
}

extern "C" void cuda_short_pool(ConvShape shape, int images, Amp amp, const void *z,
                                const float *bias, void *y, uint8_t *argmax, cudaStream_t stream)
{
    const size_t pooled = out_size(shape) / 2,
                 count = images * pooled * pooled * shape.out_channels;
    LAUNCH_SHORT(amp, pool, cuda_blocks(count / 4, BLOCK), BLOCK, stream, shape, count, z, bias, y,
                 argmax);
}

template <typename T>
static __global__ void unpool(ConvShape shape, size_t count, const void *dy, const uint8_t *argmax,
                              void *dz)
{
    const size_t i = my_index<BLOCK>() * 4;
    if (i >= count)
        return;
    const int size = out_size(shape), channels = shape.out_channels, pooled = size / 2;
    const int c = (int)(i % channels);
    const size_t place = i / channels, image = place / size / size;
    const int column = (int)(place % size), row = (int)(place / size % size);
    Pack<float, 4> gradients = {};
    if (row / 2 < pooled && column / 2 < pooled) {
        const size_t unit = ((image * pooled + row / 2) * pooled + column / 2) * channels + c;
        const Pack<uint8_t, 4> which = load_pack<uint8_t, 4>(argmax + unit);
        const Pack<float, 4> from = load_wide((const T *)dy + unit);
        for (int j = 0; j < 4; j++)
            if (which.value[j] == row % 2 * 2 + column % 2)
                gradients.value[j] = from.value[j];
    }
    store_short((T *)dz + i, gradients);
}

extern "C" void cuda_short_unpool(ConvShape shape, int images, Amp amp, const void *dy,
                                  const uint8_t *argmax, void *dz, cudaStream_t stream)
{
    const size_t size = out_size(shape), count = images * size * size * shape.out_channels;
    LAUNCH_SHORT(amp, unpool, cuda_blocks(count / 4, BLOCK), BLOCK, stream, shape, count, dy,
                 argmax, dz);
}

/* ---- a thread for each number ---- */

template <typename T>
static __global__ void bias_relu(size_t count, int columns, const float *z, const float *bias,
                                 void *y)
{
    const size_t i = my_index<BLOCK>();
    if (i >= count)
        return;
    const float value = z[i] + bias[i % columns];
    ((T *)y)[i] = T(value < 0 ? 0.0f : value);
}

extern "C" void cuda_short_bias_relu(size_t rows, int columns, Amp amp, const float *z,
                                     const float *bias, void *y, cudaStream_t stream)
{
    const size_t count = rows * columns;
    LAUNCH_SHORT(amp, bias_relu, cuda_blocks(count, BLOCK), BLOCK, stream, count, columns, z, bias,
                 y);
}

template <typename T>
static __global__ void relu_grad(size_t count, const void *y, float scale, void *dy)
{
    const size_t i = my_index<BLOCK>();
    if (i < count)
        ((T *)dy)[i] = T(relu_gradient(float(((const T *)y)[i]), scale, float(((const T *)dy)[i])));
}

extern "C" void cuda_short_relu_grad(size_t count, Amp amp, const void *y, float scale, void *dy,
                                     cudaStream_t stream)
{
    LAUNCH_SHORT(amp, relu_grad, cuda_blocks(count, BLOCK), BLOCK, stream, count, y, scale, dy);
}

template <typename T> static __global__ void add(size_t count, const void *from, float *to)
{
    const size_t i = my_index<BLOCK>();
    if (i < count)
        to[i] += float(((const T *)from)[i]);
}

extern "C" void cuda_short_add(size_t count, Amp amp, const void *from, float *to,
                               cudaStream_t stream)
{
    LAUNCH_SHORT(amp, add, cuda_blocks(count, BLOCK), BLOCK, stream, count, from, to);
}

/* Applies the same masks as all devices, bit for bit (device.h); a thread calls Philox for its four
 * units. */
template <typename T>
static __global__ void dropout(unsigned count, unsigned groups, int features, DropoutKey key,
                               const int32_t *step_offset, void *y)
{
    const unsigned thread = blockIdx.x * BLOCK + threadIdx.x;
    if (thread >= count)
        return;
    const unsigned row = thread / groups, group = thread % groups, threshold = key.p * 256;
    const uint32_t place = (uint32_t)key.first_row + row * (uint32_t)key.row_stride;
    const uint32_t seed[2] = { (uint32_t)key.seed, (uint32_t)(key.seed >> 32) };
    const uint32_t counter[4] = { group / 4, place, (uint32_t)key.layer,
                                  (uint32_t)key.step + (uint32_t)*step_offset };
    uint32_t random[4];
    philox(counter, seed, random);
    // Selected by comparisons: a run-time index would put the array into local memory.
    const unsigned which = group % 4;
    const uint32_t low = which == 0 ? random[0] : random[1];
    const uint32_t word = which < 2 ? low : which == 2 ? random[2] : random[3];
    const float scale = 1 / (1 - key.p);
    T *unit = (T *)y + (size_t)row * features + group * 4;
    for (int i = 0; i < 4 && (int)group * 4 + i < features; i++)
        unit[i] = T((word >> 8 * i & 255) >= threshold ? float(unit[i]) * scale : 0.0f);
}

extern "C" void cuda_short_dropout(int n, int features, Amp amp, DropoutKey key,
                                   const int32_t *step_offset, void *y, cudaStream_t stream)
{
    const unsigned groups = cuda_blocks(features, 4), count = (unsigned)n * groups;
    LAUNCH_SHORT(amp, dropout, cuda_blocks(count, BLOCK), BLOCK, stream, count, groups, features,
                 key, step_offset, y);
}

/* ---- sums of columns, in parts that cuda_sum_rows adds ---- */

template <typename T>
static __global__ void sum_part(size_t rows, int columns, const void *y, float scale, void *dy,
                                float *sums)
{
    __shared__ float tree[WARPS][LANES];
    const int lane = threadIdx.x, warp = threadIdx.y, column = blockIdx.x * LANES + lane;
    const size_t end = rows * (blockIdx.y + 1) / gridDim.y;
    T *values = (T *)dy;
    float sum = 0;
    if (column < columns)
        for (size_t row = rows * blockIdx.y / gridDim.y + warp; row < end; row += WARPS) {
            const size_t i = row * columns + column;
            if (y != NULL)
                values[i] = T(relu_gradient(float(((const T *)y)[i]), scale, float(values[i])));
            sum += float(values[i]);
        }
    tree[warp][lane] = sum;
    for (int half = WARPS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (warp < half)
            tree[warp][lane] += tree[warp + half][lane];
    }
    if (warp == 0 && column < columns)
        sums[(size_t)blockIdx.y * columns + column] = tree[0][lane];
}

extern "C" void cuda_short_sum_rows(size_t rows, int columns, Amp amp, const void *y, float scale,
                                    void *dy, float *partial, float *sums, cudaStream_t stream)
{
    const unsigned most = 128; // the most rows that cuda_sum_rows adds in one launch
    const unsigned wanted = cuda_blocks(rows, most), parts = wanted < most ? wanted : most;
    const dim3 grid(cuda_blocks(columns, LANES), parts);
    LAUNCH_SHORT(amp, sum_part, grid, dim3(LANES, WARPS), stream, rows, columns, y, scale, dy,
                 partial);
    cuda_sum_rows(parts, columns, NULL, 1, partial, NULL, sums, stream);
}
