/*
 * Convolution forward. A row of outputs is a matrix product with a row for each place, a column for
 * each filter, and a sum over the window under the filter, whose lines are contiguous. The next
 * place's window begins in_channels numbers later, so there is no need to copy windows into a
 * matrix, as im2col does. Only the filters are transposed, to be adjacent. With pooling and 3 x 3
 * filters, Winograd's algorithm computes pairs of rows in two thirds of the time.
 */
#include <math.h>

#include "extras/fast_cpu/cpu_kernels.h"
#include "extras/fast_cpu/cpu_product.h"

/* Returns the scratch size: filters, two rows of outputs per thread, then what Winograd needs. */
static size_t scratch_numel(ConvShape shape, int threads)
{
    const size_t two_rows = 2 * (size_t)conv_out_size(shape) * shape.out_channels;
    return (size_t)conv_filter_numel(shape) * shape.out_channels + threads * two_rows +
           cpu_winograd_scratch(shape, threads);
}

/* Transposes from [out][ky][kx][in] to [ky][kx][in][out]. */
static float *transpose_filters(Device *device, ConvShape shape, const float *weight)
{
    float *filters = cpu_scratch(device, scratch_numel(shape, device->threads));
    const ptrdiff_t numel = conv_filter_numel(shape);
    for (int o = 0; o < shape.out_channels; o++)
        for (ptrdiff_t i = 0; i < numel; i++)
            filters[i * shape.out_channels + o] = weight[o * numel + i];
    return filters;
}

/* Computes one row of outputs, without the bias, whose first window begins at x. */
static void conv_row(ConvShape shape, const float *x, const float *filters, float *y)
{
    const int line = shape.kernel * shape.in_channels;
    cpu_product(&(Product){ .rows = conv_out_size(shape),
                            .columns = shape.out_channels,
                            .outer = shape.kernel,
                            .inner = line,
                            .a = x,
                            .a_row = shape.in_channels,
                            .a_outer = (ptrdiff_t)shape.in_size * shape.in_channels,
                            .a_inner = 1,
                            .b = filters,
                            .b_outer = (ptrdiff_t)line * shape.out_channels,
                            .b_inner = shape.out_channels,
                            .c = y,
                            .c_row = shape.out_channels });
}

static void conv_relu(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                      const float *bias, float *y)
{
    const int size = conv_out_size(shape), channels = shape.out_channels;
    const ptrdiff_t in_row = (ptrdiff_t)shape.in_size * shape.in_channels;
    const float *filters = transpose_filters(device, shape, weight);

#pragma omp parallel for num_threads(device->threads) schedule(static)
    for (int row = 0; row < n * size; row++) {
        const ptrdiff_t in_line = (ptrdiff_t)row / size * shape.in_size + row % size;
        float *unit = y + (ptrdiff_t)row * size * channels;
        conv_row(shape, x + in_line * in_row, filters, unit);
        for (int column = 0; column < size; column++, unit += channels)
            for (int c = 0; c < channels; c++)
                unit[c] = unit[c] + bias[c] < 0 ? 0 : unit[c] + bias[c];
    }
}

void cpu_pool_rows(int size, int channels, const float *restrict rows, const float *restrict bias,
                   float *restrict y, uint8_t *restrict argmax)
{
    const ptrdiff_t next_row = (ptrdiff_t)size * channels;
    for (int unit = 0; unit < size / 2; unit++) {
        const float *above = rows, *below = rows + next_row;
        for (int c = 0; c < channels; c++) {
            const int right_above = above[channels + c] > above[c];
            const int right_below = below[channels + c] > below[c];
            const float upper = right_above ? above[channels + c] : above[c];
            const float lower = right_below ? below[channels + c] : below[c];
            const float largest = (lower > upper ? lower : upper) + bias[c];
            const float positive = largest < 0 ? 0 : largest;
            // A nan loses all comparisons; | and not ||, or the loop does not vectorise so well.
            const int is_nan = isunordered(above[c], above[channels + c]) |
                               isunordered(below[c], below[channels + c]);
            y[c] = is_nan ? NAN : positive;
            argmax[c] = lower > upper ? 2 + right_below : right_above;
        }
        rows += 2 * channels;
        y += channels;
        argmax += channels;
    }
}

static void conv_relu_pool(Device *device, ConvShape shape, int n, const float *x,
                           const float *weight, const float *bias, float *y, uint8_t *argmax)
{
    const int size = conv_out_size(shape), pooled = size / 2, channels = shape.out_channels;
    const ptrdiff_t in_row = (ptrdiff_t)shape.in_size * shape.in_channels;
    const ptrdiff_t out_row = (ptrdiff_t)size * channels, pooled_row = (ptrdiff_t)pooled * channels;
    float *filters = transpose_filters(device, shape, weight);
    float *rows = filters + (ptrdiff_t)conv_filter_numel(shape) * channels;
    float *winograd = rows + device->threads * 2 * out_row;
    const bool is_winograd = cpu_winograd_fits(shape);
    if (is_winograd)
        cpu_winograd_filters(shape, filters, winograd);

#pragma omp parallel for num_threads(device->threads) schedule(static)
    for (int thread = 0; thread < device->threads; thread++) {
        float *pair = rows + thread * 2 * out_row;
        const int end = cpu_share(n * pooled, thread + 1, device->threads);
        for (int i = cpu_share(n * pooled, thread, device->threads); i < end; i++) {
            const float *window =
                x + ((ptrdiff_t)i / pooled * shape.in_size + 2 * (i % pooled)) * in_row;
            if (is_winograd)
                cpu_winograd_rows(shape, thread, window, winograd, pair);
            else {
                conv_row(shape, window, filters, pair);
                conv_row(shape, window + in_row, filters, pair + out_row);
            }
            cpu_pool_rows(size, channels, pair, bias, y + i * pooled_row, argmax + i * pooled_row);
        }
    }
}

void cpu_conv_relu(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                   const float *bias, float *y, uint8_t *argmax)
{
    if (argmax == NULL)
        conv_relu(device, shape, n, x, weight, bias, y);
    else
        conv_relu_pool(device, shape, n, x, weight, bias, y, argmax);
}
