/*
 * What is neither a sum nor a product, a thread for each number: the batch, bias, relu, pooling,
 * dropout.
 */
#include "common/nn/cuda/cuda_launch.h"
#include "common/nn/philox.h"

enum { BLOCK = 256 };

static inline __device__ size_t my_index(void)
{
    return (size_t)blockIdx.x * BLOCK + threadIdx.x;
}

template <typename T> static __global__ void round_kernel(size_t count, const float *from, T *to)
{
    const size_t i = my_index();
    if (i < count)
        to[i] = T(from[i]);
}

template <typename T>
static void round_all(size_t count, const float *from, void *to, cudaStream_t stream)
{
    LAUNCH(round_kernel<T>, cuda_blocks(count, BLOCK), BLOCK, stream, count, from, (T *)to);
}

extern "C" void cuda_round(size_t count, Amp amp, const float *from, void *to, cudaStream_t stream)
{
    FOR_TYPE(amp, round_all, count, from, to, stream);
}

static __global__ void add_bias(size_t count, int columns, bool relu, const float *bias, float *y)
{
    const size_t i = my_index();
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
    const size_t i = my_index();
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

/* After a convolution's product, in one pass over its result: bias, relu, and the largest of each 2
 * x 2; of equals the first, of nans the last, as in PyTorch. Relu comes after pooling: the same
 * result from a quarter of the units. */
static __global__ void bias_relu_pool(int count, int size, int channels, const float *z,
                                      const float *bias, float *y, uint8_t *argmax)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count)
        return;
    const int pooled = size / 2, c = i % channels, unit = i / channels;
    const int image = unit / pooled / pooled, row = 2 * (unit / pooled % pooled);
    const float *above = z + ((image * size + row) * size + 2 * (unit % pooled)) * channels + c;
    const float *below = above + size * channels;
    const float corner[4] = { above[0], above[channels], below[0], below[channels] };
    float largest = corner[0];
    int which = 0;
    for (int j = 1; j < 4; j++)
        if (corner[j] > largest || isnan(corner[j])) {
            largest = corner[j];
            which = j;
        }
    y[i] = largest + bias[c] < 0 ? 0 : largest + bias[c];
    argmax[i] = which;
}

extern "C" void cuda_bias_relu_pool(int images, int size, int channels, const float *z,
                                    const float *bias, float *y, uint8_t *argmax,
                                    cudaStream_t stream)
{
    const int count = images * (size / 2) * (size / 2) * channels;
    LAUNCH(bias_relu_pool, cuda_blocks(count, BLOCK), BLOCK, stream, count, size, channels, z, bias,
           y, argmax);
}

/* Every unit checks whether it was the largest; an odd last row or column never was. */
template <typename T>
static __global__ void unpool_kernel(int count, int size, int channels, const float *dy,
                                     const uint8_t *argmax, T *dz)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count)
        return;
    const int c = i % channels, place = i / channels, pooled = size / 2;
    const int column = place % size, row = place / size % size, image = place / size / size;
    float gradient = 0;
    if (row / 2 < pooled && column / 2 < pooled) {
        const int unit = ((image * pooled + row / 2) * pooled + column / 2) * channels + c;
        if (argmax[unit] == row % 2 * 2 + column % 2)
            gradient = dy[unit];
    }
    dz[i] = T(gradient);
}

template <typename T>
static void unpool(int images, int size, int channels, const float *dy, const uint8_t *argmax,
                   void *dz, cudaStream_t stream)
{
    const int count = images * size * size * channels;
    LAUNCH(unpool_kernel<T>, cuda_blocks(count, BLOCK), BLOCK, stream, count, size, channels, dy,
           argmax, (T *)dz);
}

extern "C" void cuda_unpool(int images, int size, int channels, Amp amp, const float *dy,
                            const uint8_t *argmax, void *dz, cudaStream_t stream)
{
    FOR_TYPE(amp, unpool, images, size, channels, dy, argmax, dz, stream);
}

/* The same masks as the CPU's, bit for bit (device.h). One call of Philox draws for 16 units, four
 * per word; four threads make the same call and use one word each, which is faster than one thread
 * with 16 units, since a warp's accesses are closer together. */
enum { UNITS = 4, WORDS = 4 }; // of dropout: units per word, words per call

static __global__ void dropout(int n, int features, DropoutKey key, const int32_t *step_offset,
                               float *y)
{
    const size_t thread = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    const int groups = (features + UNITS - 1) / UNITS; // of a row
    const int row = (int)(thread / groups), group = (int)(thread % groups);
    if (row >= n)
        return;

    const uint32_t place = (uint32_t)(key.first_row + row * key.row_stride);
    const uint32_t seed[2] = { (uint32_t)key.seed, (uint32_t)(key.seed >> 32) };
    const uint32_t counter[4] = { (uint32_t)(group / WORDS), place, (uint32_t)key.layer,
                                  (uint32_t)key.step + (uint32_t)*step_offset };
    uint32_t random[WORDS];
    philox(counter, seed, random);
    // Selected by comparisons: a run-time index would put the array into local memory.
    const int which = group % WORDS;
    const uint32_t word = which == 0   ? random[0]
                          : which == 1 ? random[1]
                          : which == 2 ? random[2]
                                       : random[3];

    const uint32_t threshold = (uint32_t)(key.p * 256);
    const float scale = 1 / (1 - key.p);
    float *unit = y + (size_t)row * features + group * UNITS;
    if (features % UNITS == 0) { // aligned, in every row
        Pack<float, UNITS> units = *(const Pack<float, UNITS> *)unit;
        for (int i = 0; i < UNITS; i++)
            units.value[i] = (word >> 8 * i & 255) >= threshold ? units.value[i] * scale : 0;
        *(Pack<float, UNITS> *)unit = units;
        return;
    }
    for (int i = 0; i < UNITS && group * UNITS + i < features; i++)
        unit[i] = (word >> 8 * i & 255) >= threshold ? unit[i] * scale : 0;
}

extern "C" void cuda_dropout(Device *device, int n, int features, DropoutKey key, float *y)
{
    const size_t count = (size_t)n * ((features + UNITS - 1) / UNITS);
    LAUNCH(dropout, cuda_blocks(count, BLOCK), BLOCK, stream_of(device), n, features, key,
           cuda_step_offset(device), y);
}
