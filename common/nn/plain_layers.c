/* Convolutions and linear layers as plain loops. Each innermost loop runs over contiguous memory,
 * the filters or the numbers of a row, so that the compiler turns it into vector instructions; this
 * determines the order of the other loops. Images are [row][column][channel], filters
 * [out][ky][kx][in] (device.h). extras/fast_cpu computes the same sums in less time. */
#include <string.h>

#include "common/nn/plain.h"

/* y += a x */
static inline void add_scaled(int n, float a, const float *restrict x, float *restrict y)
{
    for (int i = 0; i < n; i++)
        y[i] += a * x[i];
}

static void relu(ptrdiff_t count, float *y)
{
    for (ptrdiff_t i = 0; i < count; i++)
        y[i] = y[i] < 0 ? 0 : y[i]; // a nan stays
}

void cpu_add_rows(int rows, int columns, const float *restrict values, float *restrict sums)
{
    for (int row = 0; row < rows; row++, values += columns)
        for (int j = 0; j < columns; j++)
            sums[j] += values[j];
}

void cpu_tree_sum(int parts, size_t numel, size_t stride, float *sums)
{
    for (int half = parts / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            cpu_add_rows(1, (int)numel, sums + (half + i) * stride, sums + i * stride);
}

void plain_relu_grad(Device *device, size_t count, const float *restrict y, float scale,
                     float *restrict dy)
{
    (void)device; // one thread suffices, as a batch has few units
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] <= 0 ? 0 : dy[i] * scale; // passed on where y is nan, as in PyTorch
}

/* ---- convolution ---- */

/* Transposes [out][ky][kx][in] to [ky][kx][in][out]: filters become adjacent. */
static void transpose_filters(ConvShape shape, const float *weight, float *filters)
{
    const int channels = shape.out_channels, numel = conv_filter_numel(shape);
    for (int c = 0; c < channels; c++)
        for (int i = 0; i < numel; i++)
            filters[i * channels + c] = weight[c * numel + i];
}

/* Computes a row of outputs [size][out] before relu; its first window begins at x. Each number of
 * the window is multiplied by its weight in every filter, in the whole row before the next. */
static void conv_row(ConvShape shape, const float *x, const float *filters, const float *bias,
                     float *restrict y)
{
    const int size = conv_out_size(shape), channels = shape.out_channels;
    const int line = shape.kernel * shape.in_channels, in_row = shape.in_size * shape.in_channels;
    for (int column = 0; column < size; column++)
        memcpy(y + column * channels, bias, channels * sizeof *y);
    for (int ky = 0; ky < shape.kernel; ky++, x += in_row)
        for (int i = 0; i < line; i++, filters += channels)
            for (int column = 0; column < size; column++)
                add_scaled(channels, x[column * shape.in_channels + i], filters,
                           y + column * channels);
}

/* Finds the largest of each 2 x 2 of two rows, and which it is: 0 and 1 above, 2 and 3 below. The
 * first of equals, as in PyTorch; a nan counts as largest. */
static void pool_rows(int size, int channels, const float *rows, float *restrict y,
                      uint8_t *restrict argmax)
{
    const int corner[4] = { 0, channels, size * channels, size * channels + channels };
    for (int unit = 0; unit < size / 2; unit++, rows += 2 * channels, y += channels)
        for (int c = 0; c < channels; c++, argmax++) {
            y[c] = rows[c];
            *argmax = 0;
            for (int i = 1; i < 4; i++) {
                const float value = rows[corner[i] + c];
                const bool larger = value > y[c] || value != value;
                y[c] = larger ? value : y[c];
                *argmax = larger ? (uint8_t)i : *argmax;
            }
        }
}

static void plain_conv_relu(Device *device, ConvShape shape, int n, const float *x,
                            const float *weight, const float *bias, float *y, uint8_t *argmax)
{
    const int pool = argmax != NULL ? 2 : 1, channels = shape.out_channels;
    const int size = conv_out_size(shape), pooled = size / pool;
    const ptrdiff_t in_row = (ptrdiff_t)shape.in_size * shape.in_channels;
    const ptrdiff_t out_row = (ptrdiff_t)size * channels, pooled_row = (ptrdiff_t)pooled * channels;
    const ptrdiff_t filters_numel = (ptrdiff_t)conv_filter_numel(shape) * channels;
    float *filters = cpu_scratch(device, filters_numel + device->threads * 2 * out_row);
    transpose_filters(shape, weight, filters);
#pragma omp parallel for num_threads(device->threads) schedule(static)
    for (int thread = 0; thread < device->threads; thread++) {
        float *rows = filters + filters_numel + thread * 2 * out_row; // two, where there is pooling
        const int end = cpu_share(n * pooled, thread + 1, device->threads);
        for (int i = cpu_share(n * pooled, thread, device->threads); i < end; i++) {
            const ptrdiff_t first_row = (ptrdiff_t)i / pooled * shape.in_size + pool * (i % pooled);
            const float *window = x + first_row * in_row;
            float *to = y + i * pooled_row;
            conv_row(shape, window, filters, bias, argmax != NULL ? rows : to);
            if (argmax != NULL) {
                conv_row(shape, window + in_row, filters, bias, rows + out_row);
                pool_rows(size, channels, rows, to, argmax + i * pooled_row);
            }
            relu(pooled_row, to);
        }
    }
}

/* Goes back through one image: each output's gradient goes to the weights of its filter, times the
 * window's pixels, and to the pixels, times the weights. Most are zero, thanks to relu, pooling and
 * dropout, and are skipped. Adds to dweight, dbias and, unless it is NULL, dx. */
static void conv_grad_image(ConvShape shape, const float *x, const float *dy, const uint8_t *argmax,
                            const float *weight, float *dweight, float *dbias, float *dx)
{
    const int pool = argmax != NULL ? 2 : 1, size = conv_out_size(shape) / pool;
    const int line = shape.kernel * shape.in_channels, in_row = shape.in_size * shape.in_channels;
    for (int i = 0; i < size * size * shape.out_channels; i++) {
        if (dy[i] == 0)
            continue;
        const int unit = i / shape.out_channels, c = i % shape.out_channels;
        const int corner = argmax != NULL ? argmax[i] : 0;
        const int row = unit / size * pool + corner / 2, column = unit % size * pool + corner % 2;
        ptrdiff_t window = row * in_row + column * shape.in_channels;
        ptrdiff_t filter = (ptrdiff_t)c * conv_filter_numel(shape);
        dbias[c] += dy[i];
        for (int ky = 0; ky < shape.kernel; ky++, window += in_row, filter += line) {
            add_scaled(line, dy[i], x + window, dweight + filter);
            if (dx != NULL)
                add_scaled(line, dy[i], weight + filter, dx + window);
        }
    }
}

static void plain_conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                            const uint8_t *argmax, const float *weight, float scale, float *dy,
                            float *dweight, float *dbias, float *dx)
{
    const int size = conv_out_size(shape) / (argmax != NULL ? 2 : 1), shards = device->shards;
    const ptrdiff_t out_numel = (ptrdiff_t)size * size * shape.out_channels;
    const ptrdiff_t in_numel = (ptrdiff_t)shape.in_size * shape.in_size * shape.in_channels;
    const ptrdiff_t filters_numel = (ptrdiff_t)conv_filter_numel(shape) * shape.out_channels;
    const ptrdiff_t sums_numel = filters_numel + shape.out_channels; // the bias comes last
    // A chunk is every chunks-th image, so that a shard is a whole number of chunks.
    const int chunks = shards > 0 ? CPU_CHUNKS_PER_SHARD * shards : CPU_CHUNKS;
    float *sums = cpu_scratch(device, CPU_CHUNKS * sums_numel);
#pragma omp parallel for num_threads(device->threads) schedule(static)
    for (int chunk = 0; chunk < chunks; chunk++) {
        float *sum = sums + chunk * sums_numel;
        memset(sum, 0, sums_numel * sizeof *sum);
        for (int i = chunk; i < n; i += chunks) {
            float *dimage = dx != NULL ? dx + i * in_numel : NULL;
            if (dimage != NULL)
                memset(dimage, 0, in_numel * sizeof *dimage);
            plain_relu_grad(device, out_numel, y + i * out_numel, scale, dy + i * out_numel);
            conv_grad_image(shape, x + i * in_numel, dy + i * out_numel,
                            argmax != NULL ? argmax + i * out_numel : NULL, weight, sum,
                            sum + filters_numel, dimage);
        }
    }
    cpu_tree_sum(chunks, sums_numel, sums_numel, sums);
    cpu_add_rows(1, (int)filters_numel, sums, dweight);
    cpu_add_rows(1, shape.out_channels, sums + filters_numel, dbias);
}

/* ---- linear layers: y = x W^T + b, dW = dy^T x, dx = dy W ---- */

/* BLOCK numbers of a row are used for the whole batch before the next, while they are cached. */
enum { BLOCK = 512 };

/* Computes a dot product as LANES sums, which the compiler keeps in vectors. */
static float dot(int n, const float *a, const float *b)
{
    enum { LANES = 64 };
    float lane[LANES] = { 0 }, sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

static void plain_linear(Device *device, int n, int in, int out, bool with_relu, const float *x,
                         const float *weight, const float *bias, float *y)
{
    const int threads = cpu_threads(device, (double)n * in * out);
#pragma omp parallel num_threads(threads)
    for (int first = 0; first < in; first += BLOCK) {
#pragma omp for schedule(static) nowait
        for (int o = 0; o < out; o++)
            for (int row = 0; row < n; row++) {
                float *sum = &y[(ptrdiff_t)row * out + o];
                *sum = (first > 0 ? *sum : bias[o]) + dot(cpu_min(BLOCK, in - first),
                                                          x + (ptrdiff_t)row * in + first,
                                                          weight + (ptrdiff_t)o * in + first);
            }
    }
    if (with_relu)
        relu((ptrdiff_t)n * out, y);
}

static void plain_linear_grad_params(Device *device, int n, int in, int out, const float *x,
                                     const float *dy, float *dweight, float *dbias)
{
    const int shards = device->shards > 0 ? device->shards : 1;
    const int threads = cpu_threads(device, (double)n * in * out);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int first = 0; first < in; first += BLOCK)
        for (int o = 0; o < out; o++) {
            const int count = cpu_min(BLOCK, in - first);
            float sums[CPU_MAX_SHARDS][BLOCK];
            memset(sums, 0, shards * sizeof sums[0]);
            for (int row = 0; row < n; row++)
                add_scaled(count, dy[row * out + o], x + (ptrdiff_t)row * in + first,
                           sums[row % shards]);
            cpu_tree_sum(shards, count, BLOCK, sums[0]);
            cpu_add_rows(1, count, sums[0], dweight + (ptrdiff_t)o * in + first);
        }
    for (int o = 0; o < out; o++) {
        float sums[CPU_MAX_SHARDS] = { 0 };
        for (int row = 0; row < n; row++)
            sums[row % shards] += dy[row * out + o];
        cpu_tree_sum(shards, 1, 1, sums);
        dbias[o] += sums[0];
    }
}

static void plain_linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                                    const float *weight, float *dx)
{
    const int threads = cpu_threads(device, (double)n * in * out);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int first = 0; first < in; first += BLOCK)
        for (int row = 0; row < n; row++) {
            const int count = cpu_min(BLOCK, in - first);
            float *sum = dx + (ptrdiff_t)row * in + first;
            memset(sum, 0, count * sizeof *sum);
            for (int o = 0; o < out; o++)
                add_scaled(count, dy[row * out + o], weight + (ptrdiff_t)o * in + first, sum);
        }
}

void plain_layers(DeviceOps *ops)
{
    ops->conv_relu = plain_conv_relu;
    ops->conv_grad = plain_conv_grad;
    ops->linear = plain_linear;
    ops->relu_grad = plain_relu_grad;
    ops->linear_grad_params = plain_linear_grad_params;
    ops->linear_grad_input = plain_linear_grad_input;
}
