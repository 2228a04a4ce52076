/*
 * A 3 x 3 convolution with 4 multiplications per output instead of 9 (Winograd, 1980; Lavin and
 * Gray, "Fast Algorithms for Convolutional Neural Networks", 2016). Two neighbouring outputs of
 * pixels a, b, c, d and weights u, v, w take four products instead of six:
 *
 *     a u + b v + c w = (a - c) u + (b + c) (u + v + w) / 2 + (c - b) (u - v + w) / 2
 *     b u + c v + d w = (b + c) (u + v + w) / 2 - (c - b) (u - v + w) / 2 - (b - d) w
 *
 * In two dimensions the same is done vertically and horizontally: 2 x 2 outputs take 16 products,
 * not 36. The outputs' transform can wait until the channels are summed, so each of the 16 is a
 * matrix product. Only the rounding differs from the plain sum.
 */
#include "extras/fast_cpu/cpu_kernels.h"
#include "extras/fast_cpu/cpu_product.h"

enum { PRODUCTS = 4 }; // number of products along an axis

/* The three transforms, along one axis, of n sequences at once: the k-th number of sequence i is
 * from[k * from_step + i]. */
static void transform_weights(ptrdiff_t n, const float *restrict from, ptrdiff_t from_step,
                              float *restrict to, ptrdiff_t to_step)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const float u = from[i], v = from[i + from_step], w = from[i + 2 * from_step];
        to[i] = u;
        to[i + to_step] = (u + v + w) / 2;
        to[i + 2 * to_step] = (u - v + w) / 2;
        to[i + 3 * to_step] = w;
    }
}

static void transform_pixels(ptrdiff_t n, const float *restrict from, ptrdiff_t from_step,
                             float *restrict to, ptrdiff_t to_step)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const float a = from[i], b = from[i + from_step];
        const float c = from[i + 2 * from_step], d = from[i + 3 * from_step];
        to[i] = a - c;
        to[i + to_step] = b + c;
        to[i + 2 * to_step] = c - b;
        to[i + 3 * to_step] = b - d;
    }
}

static void transform_products(ptrdiff_t n, const float *restrict from, ptrdiff_t from_step,
                               float *restrict to, ptrdiff_t to_step)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const float p = from[i], q = from[i + from_step];
        const float r = from[i + 2 * from_step], s = from[i + 3 * from_step];
        to[i] = p + q + r;
        to[i + to_step] = q - r - s;
    }
}

/* The stages for a pair of rows, in floats. A unit is 2 x 2 outputs. */
typedef struct {
    ptrdiff_t lines; // pixels transformed vertically, [PRODUCTS][in_size][in]
    ptrdiff_t pixels; // pixels also transformed horizontally, [PRODUCTS][PRODUCTS][units][in]
    ptrdiff_t products; // pixels times the weights, [PRODUCTS][PRODUCTS][units][out]
    ptrdiff_t halves; // products transformed vertically, [2][PRODUCTS][units][out]
} Stages;

static Stages stages_of(ConvShape shape)
{
    const ptrdiff_t units = conv_out_size(shape) / 2;
    return (Stages){ .lines = (ptrdiff_t)PRODUCTS * shape.in_size * shape.in_channels,
                     .pixels = PRODUCTS * PRODUCTS * units * shape.in_channels,
                     .products = PRODUCTS * PRODUCTS * units * shape.out_channels,
                     .halves = 2 * PRODUCTS * units * shape.out_channels };
}

static ptrdiff_t thread_numel(ConvShape shape)
{
    const Stages stages = stages_of(shape);
    return stages.lines + stages.pixels + stages.products + stages.halves;
}

/* Returns the size of the transformed weights, [PRODUCTS][PRODUCTS][in][out]. */
static ptrdiff_t weights_numel(ConvShape shape)
{
    return (ptrdiff_t)PRODUCTS * PRODUCTS * shape.in_channels * shape.out_channels;
}

/* The weights come first, then the scratch of their transform, then the threads' stages. */
size_t cpu_winograd_scratch(ConvShape shape, int threads)
{
    return 2 * weights_numel(shape) + threads * thread_numel(shape);
}

void cpu_winograd_filters(ConvShape shape, const float *filters, float *scratch)
{
    const ptrdiff_t numel = (ptrdiff_t)shape.in_channels * shape.out_channels;
    float *lines = scratch + weights_numel(shape); // [PRODUCTS][3][in][out]
    transform_weights(3 * numel, filters, 3 * numel, lines, 3 * numel);
    for (int i = 0; i < PRODUCTS; i++)
        transform_weights(numel, lines + 3 * i * numel, numel, scratch + PRODUCTS * i * numel,
                          numel);
}

void cpu_winograd_rows(ConvShape shape, int thread, const float *x, float *scratch, float *y)
{
    const int in = shape.in_channels, out = shape.out_channels, units = conv_out_size(shape) / 2;
    const ptrdiff_t in_row = (ptrdiff_t)shape.in_size * in, row = (ptrdiff_t)units * out;
    const ptrdiff_t y_row = (ptrdiff_t)conv_out_size(shape) * out;
    const Stages stages = stages_of(shape);
    float *lines = scratch + 2 * weights_numel(shape) + thread * thread_numel(shape);
    float *pixels = lines + stages.lines;
    float *products = pixels + stages.pixels;
    float *halves = products + stages.products;

    transform_pixels(in_row, x, in_row, lines, in_row);
    for (int i = 0; i < PRODUCTS; i++)
        for (int unit = 0; unit < units; unit++)
            transform_pixels(in, lines + i * in_row + 2 * unit * in, in,
                             pixels + (PRODUCTS * i * units + unit) * in, units * in);

    for (int i = 0; i < PRODUCTS * PRODUCTS; i++)
        cpu_product(&(Product){ .rows = units,
                                .columns = out,
                                .outer = 1,
                                .inner = in,
                                .a = pixels + i * units * in,
                                .a_row = in,
                                .a_inner = 1,
                                .b = scratch + (ptrdiff_t)i * in * out,
                                .b_inner = out,
                                .c = products + i * row,
                                .c_row = out });

    transform_products(PRODUCTS * row, products, PRODUCTS * row, halves, PRODUCTS * row);
    for (int i = 0; i < 2; i++)
        for (int unit = 0; unit < units; unit++)
            transform_products(out, halves + PRODUCTS * i * row + unit * out, row,
                               y + i * y_row + 2 * unit * out, out);
}
