/*
 * --amp bf16 on a CPU: the layers with large products. Operands are rounded into scratch memory, in
 * the pairs that the instruction takes: two neighbours of a convolution's images and of a linear
 * layer's rows, two interleaved rows of the other operand.
 *
 * The backward pass of a convolution stays float32: it skips zeros, four of five of its numbers,
 * which saves more than bf16 does. Layers with few outputs, and images with an odd number of
 * channels, which do not form pairs, stay float32 too.
 */
#include "extras/fast_cpu/cpu_bf16.h"

#include <string.h>

#include "extras/fast_cpu/cpu_kernels.h"

enum {
    PANEL_COLUMNS = 64,
    PANEL_DEPTH = 64, // pairs: such a panel, 16 KiB, fits into the L1 cache
};

static int pairs(int count)
{
    return (count + 1) / 2;
}

/* ---- convolution, with pooling ---- */

static ptrdiff_t image_pairs(ConvShape shape)
{
    return (ptrdiff_t)shape.in_size * shape.in_size * shape.in_channels / 2;
}

/* Scratch parts, in words: the filters, then for each thread an image and two rows of outputs. */
static ptrdiff_t filter_words(ConvShape shape)
{
    return (ptrdiff_t)conv_filter_numel(shape) / 2 * shape.out_channels;
}

static ptrdiff_t thread_words(ConvShape shape)
{
    return image_pairs(shape) + 2 * (ptrdiff_t)conv_out_size(shape) * shape.out_channels;
}

/* Packs from [out][ky][kx][in] to [ky][kx][in / 2][out], in pairs. */
static void pack_filters(ConvShape shape, const float *weight, Bf16Pair *to)
{
    const int numel = conv_filter_numel(shape) / 2;
    for (int o = 0; o < shape.out_channels; o++)
        for (int i = 0; i < numel; i++)
            cpu_bf16_round(2, weight + 2 * ((ptrdiff_t)o * numel + i),
                           to + (ptrdiff_t)i * shape.out_channels + o);
}

static void conv_image(ConvShape shape, const Bf16Pair *image, const Bf16Pair *filters, float *rows,
                       const float *bias, float *y, uint8_t *argmax)
{
    const int size = conv_out_size(shape), channels = shape.out_channels;
    const ptrdiff_t in_row = (ptrdiff_t)shape.in_size * shape.in_channels / 2;
    const ptrdiff_t out_row = (ptrdiff_t)size * channels, pooled_row = size / 2 * channels;
    for (int i = 0; i < size / 2; i++) {
        for (int half = 0; half < 2; half++)
            cpu_bf16_product(&(PairProduct){ .rows = size,
                                             .columns = channels,
                                             .outer = shape.kernel,
                                             .inner = shape.kernel * shape.in_channels / 2,
                                             .a = image + (2 * i + half) * in_row,
                                             .a_row = shape.in_channels / 2,
                                             .a_outer = in_row,
                                             .b = filters,
                                             .b_row = channels,
                                             .c = rows + half * out_row,
                                             .c_row = channels });
        cpu_pool_rows(size, channels, rows, bias, y + i * pooled_row, argmax + i * pooled_row);
    }
}

static void conv_relu(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                      const float *bias, float *y, uint8_t *argmax)
{
    if (!cpu_bf16_rounds_conv(shape, argmax)) {
        cpu_conv_relu(device, shape, n, x, weight, bias, y, argmax);
        return;
    }
    const ptrdiff_t words = filter_words(shape) + device->threads * thread_words(shape);
    const int pooled = conv_out_size(shape) / 2;
    const ptrdiff_t out_numel = (ptrdiff_t)pooled * pooled * shape.out_channels;
    Bf16Pair *filters = (Bf16Pair *)cpu_scratch(device, words);
    pack_filters(shape, weight, filters);

#pragma omp parallel for num_threads(device->threads) schedule(static)
    for (int thread = 0; thread < device->threads; thread++) {
        Bf16Pair *image = filters + filter_words(shape) + thread * thread_words(shape);
        float *rows = (float *)(image + image_pairs(shape));
        const int end = cpu_share(n, thread + 1, device->threads);
        for (int i = cpu_share(n, thread, device->threads); i < end; i++) {
            cpu_bf16_round(2 * image_pairs(shape), x + 2 * i * image_pairs(shape), image);
            conv_image(shape, image, filters, rows, bias, y + i * out_numel,
                       argmax + i * out_numel);
        }
    }
}

/* ---- linear layers ---- */

enum { DOT_DEPTH = 512, DOT_COLUMNS = 4 }; // pairs; rows of the weight computed together

static ptrdiff_t dot_row(int in) // number of pairs in a row of inputs, padded to whole vectors
{
    return (pairs(in) + 15) / 16 * 16;
}

/* Rounds a row and pads it with zeros. */
static void round_row(int count, const float *from, ptrdiff_t words, Bf16Pair *to)
{
    cpu_bf16_round(count, from, to);
    memset(to + pairs(count), 0, (words - pairs(count)) * sizeof *to);
}

/* Adds dot products. Each piece of the weight is rounded once and used for the whole batch. */
static void add_dots(int threads, int n, int in, int out, const Bf16Pair *x, const float *weight,
                     float *y)
{
#pragma omp parallel num_threads(threads)
    for (int k = 0; k < dot_row(in); k += DOT_DEPTH) {
#pragma omp for schedule(static) nowait
        for (int j = 0; j < out; j += DOT_COLUMNS) {
            Bf16Pair piece[DOT_COLUMNS][DOT_DEPTH];
            const int depth = cpu_min(DOT_DEPTH, dot_row(in) - k);
            const int columns = cpu_min(DOT_COLUMNS, out - j);
            for (int column = 0; column < columns; column++)
                round_row(cpu_min(2 * depth, in - 2 * k),
                          weight + (ptrdiff_t)(j + column) * in + 2 * k, depth, piece[column]);
            cpu_bf16_dots(&(PairDots){ .rows = n,
                                       .columns = columns,
                                       .depth = depth,
                                       .a = x + k,
                                       .a_row = dot_row(in),
                                       .b = piece[0],
                                       .b_row = DOT_DEPTH,
                                       .c = y + j,
                                       .c_row = out });
        }
    }
}

static void linear(Device *device, int n, int in, int out, bool relu, const float *x,
                   const float *weight, const float *bias, float *y)
{
    if (out < CPU_BF16_OUTPUTS) {
        cpu_linear(device, n, in, out, relu, x, weight, bias, y);
        return;
    }
    Bf16Pair *rounded = (Bf16Pair *)cpu_scratch(device, n * dot_row(in));
    for (int row = 0; row < n; row++) {
        round_row(in, x + (ptrdiff_t)row * in, dot_row(in), rounded + row * dot_row(in));
        memcpy(y + (ptrdiff_t)row * out, bias, out * sizeof *y);
    }
    add_dots(cpu_threads(device, (double)n * in * out), n, in, out, rounded, weight, y);
    if (relu)
        for (ptrdiff_t i = 0; i < (ptrdiff_t)n * out; i++)
            y[i] = y[i] < 0 ? 0 : y[i];
}

/* Computes a C with long rows, panel by panel, so that a panel of B stays in the cache. Panels are
 * packed from `count` rows of B, two rows into one of pairs. */
static void product_by_panels(Device *device, const PairProduct *p, const float *b, int count)
{
    const int threads = cpu_threads(device, (double)p->rows * p->columns * count);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int column = 0; column < p->columns; column += PANEL_COLUMNS) {
        PairProduct part = *p;
        part.columns = cpu_min(PANEL_COLUMNS, p->columns - column);
        part.c = p->c + column;
        _Alignas(64) Bf16Pair panel[PANEL_DEPTH][PANEL_COLUMNS];
        part.b = panel[0];
        part.b_row = PANEL_COLUMNS;
        for (int k = 0; k < pairs(count); k += PANEL_DEPTH) {
            part.a = p->a + k;
            part.inner = cpu_min(PANEL_DEPTH, pairs(count) - k);
            for (int i = 0; i < part.inner; i++) {
                const float *row = b + 2 * (ptrdiff_t)(k + i) * p->columns + column;
                cpu_bf16_interleave(part.columns, row,
                                    2 * (k + i) + 1 < count ? row + p->columns : NULL, panel[i]);
            }
            cpu_bf16_product(&part);
            part.add = true;
        }
    }
}

/* Computes dW = dy^T x: the sum runs over the rows of both. */
static void linear_grad_params(Device *device, int n, int in, int out, const float *x,
                               const float *dy, float *dweight, float *dbias)
{
    if (out < CPU_BF16_OUTPUTS) {
        cpu_linear_grad_params(device, n, in, out, x, dy, dweight, dbias);
        return;
    }
    cpu_add_rows(n, out, dy, dbias);
    Bf16Pair *columns = (Bf16Pair *)cpu_scratch(device, (size_t)pairs(n) * out);
    for (int i = 0; i < pairs(n); i++)
        for (int j = 0; j < out; j++) {
            const float *value = dy + 2 * (ptrdiff_t)i * out + j;
            const float both[2] = { value[0], 2 * i + 1 < n ? value[out] : 0 };
            cpu_bf16_round(2, both, columns + (ptrdiff_t)j * pairs(n) + i);
        }
    product_by_panels(device,
                      &(PairProduct){ .rows = out,
                                      .columns = in,
                                      .outer = 1,
                                      .a = columns,
                                      .a_row = pairs(n),
                                      .c = dweight,
                                      .c_row = in,
                                      .add = true },
                      x, n);
}

/* Computes dx = dy W: the sum runs over the outputs. */
static void linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                              const float *weight, float *dx)
{
    if (out < CPU_BF16_OUTPUTS) {
        cpu_linear_grad_input(device, n, in, out, dy, weight, dx);
        return;
    }
    Bf16Pair *rows = (Bf16Pair *)cpu_scratch(device, (size_t)n * pairs(out));
    for (int row = 0; row < n; row++)
        cpu_bf16_round(out, dy + (ptrdiff_t)row * out, rows + (ptrdiff_t)row * pairs(out));
    product_by_panels(device,
                      &(PairProduct){ .rows = n,
                                      .columns = in,
                                      .outer = 1,
                                      .a = rows,
                                      .a_row = pairs(out),
                                      .c = dx,
                                      .c_row = in },
                      weight, out);
}

void cpu_bf16_ops(DeviceOps *ops)
{
    ops->conv_relu = conv_relu;
    ops->linear = linear;
    ops->linear_grad_params = linear_grad_params;
    ops->linear_grad_input = linear_grad_input;
}
