/* Kernels with one thread per number: gathering the batch, bias, relu, pooling, dropout; and the
 * sum over columns, for the gradient of a bias. */
#include "common/nn/cuda/cuda_launch.h"

enum { BLOCK = 256 };

/* A thread has COUNT numbers. */
template <typename T, int COUNT>
static __global__ void round_kernel(size_t count, const float *from, T *to)
{
    const size_t i = my_index<BLOCK>() * COUNT;
    if (i >= count)
        return;
    const Pack<float, COUNT> numbers = load_pack<float, COUNT>(from + i);
    Pack<T, COUNT> rounded;
    for (int j = 0; j < COUNT; j++)
        rounded.value[j] = T(numbers.value[j]);
    store_pack(to + i, rounded);
}

template <typename T>
static void round_all(size_t count, const float *from, void *to, cudaStream_t stream)
{
    if (count % 4 == 0 &&
        (uintptr_t)from % sizeof(Pack<float, 4>) == 0) // some slices begin anywhere
        LAUNCH((round_kernel<T, 4>), cuda_blocks(count / 4, BLOCK), BLOCK, stream, count, from,
               (T *)to);
    else
        LAUNCH((round_kernel<T, 1>), cuda_blocks(count, BLOCK), BLOCK, stream, count, from,
               (T *)to);
}

extern "C" void cuda_round(size_t count, Amp amp, const float *from, void *to, cudaStream_t stream)
{
    FOR_TYPE(amp, round_all, count, from, to, stream);
}

static __global__ void add_bias(size_t count, int columns, bool relu, const float *bias, float *y)
{
    const size_t i = my_index<BLOCK>();
    if (i >= count)
        return;
    const float value = y[i] + bias[i % columns];
    y[i] = relu && value < 0 ? 0 : value;
}

extern "C" void cuda_add_bias(size_t rows, int columns, bool relu, const float *bias, float *y,
                              cudaStream_t stream)
{
    const size_t count = rows * columns;
    LAUNCH(add_bias, cuda_blocks(count, BLOCK), BLOCK, stream, count, columns, relu, bias, y);
}

static __global__ void relu_grad(size_t count, const float *y, float scale, float *dy)
{
    const size_t i = my_index<BLOCK>();
    if (i < count)
        dy[i] = relu_gradient(y[i], scale, dy[i]);
}

extern "C" void cuda_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy)
{
    LAUNCH(relu_grad, cuda_blocks(count, BLOCK), BLOCK, stream_of(device), count, y, scale, dy);
}

/* A block for each row. Pixels stay bytes until here: a quarter of the memory and, if the set does
 * not fit on the device, of the traffic on the bus. */
static __global__ void gather(int features, CudaRows from, const int32_t *rows, float *inputs,
                              uint32_t *words)
{
    const size_t row = (size_t)rows[blockIdx.x];
    float *input = inputs + (size_t)blockIdx.x * features;
    for (int i = threadIdx.x; i < features; i += BLOCK)
        input[i] = from.bytes != NULL ? from.normalised[from.bytes[row * features + i]]
                                      : from.floats[row * features + i];
    if (threadIdx.x == 0)
        words[blockIdx.x] = from.words[row];
}

extern "C" void cuda_gather(int n, int features, CudaRows from, const int32_t *rows, float *inputs,
                            uint32_t *words, cudaStream_t stream)
{
    LAUNCH(gather, n, BLOCK, stream, features, from, rows, inputs, words);
}

/* Applies to a convolution's product, in one pass over its result: bias, relu, and the largest of
 * each 2 x 2; of equals the first, of nans the last, as in PyTorch. Relu comes after pooling: the
 * same result from a quarter of the units. A thread has COUNT channels of a pooled unit. */
template <int COUNT, typename Shape>
static __global__ void pool_kernel(Shape shape, int count, const float *z, const float *bias,
                                   float *y, uint8_t *argmax)
{
    const int i = (int)my_index<BLOCK>() * COUNT;
    if (i >= count)
        return;
    const int size = out_size(shape), channels = shape.out_channels, pooled = size / 2;
    const int c = i % channels, unit = i / channels;
    const int image = unit / pooled / pooled, row = 2 * (unit / pooled % pooled);
    const float *above = z + ((image * size + row) * size + 2 * (unit % pooled)) * channels + c;
    Pack<float, COUNT> largest = load_pack<float, COUNT>(above);
    Pack<uint8_t, COUNT> which = {};
    for (int corner = 1; corner < 4; corner++) {
        const float *from = above + (corner / 2 * size + corner % 2) * channels;
        const Pack<float, COUNT> other = load_pack<float, COUNT>(from);
        for (int j = 0; j < COUNT; j++)
            if (other.value[j] > largest.value[j] || isnan(other.value[j])) {
                largest.value[j] = other.value[j];
                which.value[j] = corner;
            }
    }
    for (int j = 0; j < COUNT; j++) {
        const float sum = largest.value[j] + bias[c + j];
        largest.value[j] = sum < 0 ? 0 : sum;
    }
    store_pack(y + i, largest);
    store_pack(argmax + i, which);
}

extern "C" void cuda_bias_relu_pool(ConvShape shape, int images, const float *z, const float *bias,
                                    float *y, uint8_t *argmax, cudaStream_t stream)
{
    const int pooled = out_size(shape) / 2, count = images * pooled * pooled * shape.out_channels;
    if (SecondConv::is(shape))
        LAUNCH((pool_kernel<4, SecondConv>), cuda_blocks(count / 4, BLOCK), BLOCK, stream,
               SecondConv(), count, z, bias, y, argmax);
    else
        LAUNCH((pool_kernel<1, ConvShape>), cuda_blocks(count, BLOCK), BLOCK, stream, shape, count,
               z, bias, y, argmax);
}

/* Every unit checks whether it was the largest; an odd last row or column never was. A thread has
 * COUNT channels of a unit. */
template <typename T, int COUNT, typename Shape>
static __global__ void unpool_kernel(Shape shape, int count, const float *dy, const uint8_t *argmax,
                                     T *dz)
{
    const int i = (int)my_index<BLOCK>() * COUNT;
    if (i >= count)
        return;
    const int size = out_size(shape), channels = shape.out_channels, pooled = size / 2;
    const int c = i % channels, place = i / channels;
    const int column = place % size, row = place / size % size, image = place / size / size;
    Pack<T, COUNT> gradients;
    for (int j = 0; j < COUNT; j++)
        gradients.value[j] = T(0.0f);
    if (row / 2 < pooled && column / 2 < pooled) {
        const int unit = ((image * pooled + row / 2) * pooled + column / 2) * channels + c;
        const Pack<uint8_t, COUNT> which = load_pack<uint8_t, COUNT>(argmax + unit);
        const Pack<float, COUNT> from = load_pack<float, COUNT>(dy + unit);
        for (int j = 0; j < COUNT; j++)
            if (which.value[j] == row % 2 * 2 + column % 2)
                gradients.value[j] = T(from.value[j]);
    }
    store_pack(dz + i, gradients);
}

template <typename T>
static void unpool(ConvShape shape, int images, const float *dy, const uint8_t *argmax, void *to,
                   cudaStream_t stream)
{
    T *dz = (T *)to;
    const int count = images * out_size(shape) * out_size(shape) * shape.out_channels;
    if (SecondConv::is(shape))
        LAUNCH((unpool_kernel<T, 4, SecondConv>), cuda_blocks(count / 4, BLOCK), BLOCK, stream,
               SecondConv(), count, dy, argmax, dz);
    else
        LAUNCH((unpool_kernel<T, 1, ConvShape>), cuda_blocks(count, BLOCK), BLOCK, stream, shape,
               count, dy, argmax, dz);
}

extern "C" void cuda_unpool(ConvShape shape, int images, Amp amp, const float *dy,
                            const uint8_t *argmax, void *dz, cudaStream_t stream)
{
    FOR_TYPE(amp, unpool, shape, images, dy, argmax, dz, stream);
}

/* The same masks as the CPU's, bit for bit (device.h). One call of Philox draws for 16 units, four
 * per word; four threads make the same call and use one word each, which is faster than one thread
 * with 16 units, since a warp's accesses are closer together. */
enum { UNITS = 4, WORDS = 4 }; // dropout's units per word, words per call

/* A unit is dropped if its byte is below the threshold. */
typedef struct {
    uint32_t threshold;
    float scale; // factor of the units that are kept
} DropoutRule;

/* A thread for each of `count` words, `groups` of them in a row; 2^32 would be 64 GiB of units. */
static __global__ void dropout(unsigned count, unsigned groups, int features, DropoutKey key,
                               DropoutRule rule, const int32_t *step_offset, float *y)
{
    const unsigned thread = blockIdx.x * BLOCK + threadIdx.x;
    if (thread >= count)
        return;
    const unsigned row = thread / groups, group = thread % groups;

    const uint32_t place = (uint32_t)key.first_row + row * (uint32_t)key.row_stride;
    const uint32_t seed[2] = { (uint32_t)key.seed, (uint32_t)(key.seed >> 32) };
    const uint32_t counter[4] = { group / WORDS, place, (uint32_t)key.layer,
                                  (uint32_t)key.step + (uint32_t)*step_offset };
    uint32_t random[WORDS];
    philox(counter, seed, random);
    // Selected by comparisons, because a run-time index would put the array into local memory.
    const unsigned which = group % WORDS;
    const uint32_t word = which == 0   ? random[0]
                          : which == 1 ? random[1]
                          : which == 2 ? random[2]
                                       : random[3];

    float *unit = y + (size_t)row * features + group * UNITS;
    if (features % UNITS == 0) { // aligned, in every row
        Pack<float, UNITS> units = load_pack<float, UNITS>(unit);
        for (int i = 0; i < UNITS; i++)
            units.value[i] =
                (word >> 8 * i & 255) >= rule.threshold ? units.value[i] * rule.scale : 0;
        store_pack(unit, units);
        return;
    }
    for (int i = 0; i < UNITS && (int)group * UNITS + i < features; i++)
        unit[i] = (word >> 8 * i & 255) >= rule.threshold ? unit[i] * rule.scale : 0;
}

extern "C" void cuda_dropout(Device *device, int n, int features, DropoutKey key, float *y)
{
    const DropoutRule rule = { (uint32_t)(key.p * 256), 1 / (1 - key.p) };
    const unsigned groups = cuda_blocks(features, UNITS);
    const size_t count = (size_t)n * groups;
    LAUNCH(dropout, cuda_blocks(count, BLOCK), BLOCK, stream_of(device), (unsigned)count, groups,
           features, key, rule, cuda_step_offset(device), y);
}

/* The sum of each column of a matrix. In a block, a warp reads 32 columns of a row at once and
 * every WARPS-th row; then the warps' sums are added as a tree. Many rows are cut into parts with a
 * block for each, and a second launch sums the parts. The order of additions depends on the number
 * of rows alone, so every run gives the same bits. */
enum { LANES = 32, WARPS = 16, ROWS_PER_PART = 128 };

/* Sums part blockIdx.y of the rows: sums[part][column] = or += its sums. */
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
