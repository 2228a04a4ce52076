/*
 * A 3 x 3 convolution with 4 multiplications per output instead of 9 (Winograd, 1980; Lavin and
 * Gray, "Fast Algorithms for Convolutional Neural Networks", 2016).
 *
 * Two neighbouring outputs are made of three weights and four pixels. They are coefficients of a
 * product of polynomials, and those can be had by evaluating both factors at four points (0, 1, -1,
 * infinity), multiplying there, and interpolating: 4 multiplications, not 6, and some additions.
 * Along both axes that makes 16 for 2 x 2 outputs, not 36. Channels are summed up before
 * interpolating, so all the multiplications of a point are one product of matrices. Only the
 * rounding differs.
 */
#include "common/nn/cpu_kernels.h"
#include "common/nn/cpu_product.h"

enum { POINTS = 4 }; // along an axis

/* Each of these three works along one axis, on n sequences at once: the k-th number of sequence i
 * is from[k * from_step + i]. */
static void evaluate_filters(ptrdiff_t n, const float *restrict from, ptrdiff_t from_step,
                             float *restrict to, ptrdiff_t to_step)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const float a = from[i], b = from[i + from_step], c = from[i + 2 * from_step];
        to[i] = a;
        to[i + to_step] = (a + b + c) / 2;
        to[i + 2 * to_step] = (a - b + c) / 2;
        to[i + 3 * to_step] = c;
    }
}

static void evaluate_pixels(ptrdiff_t n, const float *restrict from, ptrdiff_t from_step,
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

static void interpolate(ptrdiff_t n, const float *restrict from, ptrdiff_t from_step,
                        float *restrict to, ptrdiff_t to_step)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        const float a = from[i], b = from[i + from_step];
        const float c = from[i + 2 * from_step], d = from[i + 3 * from_step];
        to[i] = a + b + c;
        to[i + to_step] = b - c - d;
    }
}

/* What a pair of rows goes through, in floats: image lines evaluated downwards, then also across;
 * their products with the filters; and these interpolated downwards. */
typedef struct {
    ptrdiff_t lines; // [POINTS][in_size][in]
    ptrdiff_t points; // [POINTS][POINTS][units][in]
    ptrdiff_t products; // [POINTS][POINTS][units][out]
    ptrdiff_t halves; // [2][POINTS][units][out]
} Stages;

static Stages stages_of(ConvShape shape)
{
    const ptrdiff_t units = conv_out_size(shape) / 2;
    return (Stages){ .lines = (ptrdiff_t)POINTS * shape.in_size * shape.in_channels,
                     .points = POINTS * POINTS * units * shape.in_channels,
                     .products = POINTS * POINTS * units * shape.out_channels,
                     .halves = 2 * POINTS * units * shape.out_channels };
}

/* The evaluated filters, [POINTS][POINTS][in][out], are the first thing in scratch. */
static ptrdiff_t filters_numel(ConvShape shape)
{
    return (ptrdiff_t)POINTS * POINTS * shape.in_channels * shape.out_channels;
}

static ptrdiff_t thread_numel(ConvShape shape)
{
    const Stages stages = stages_of(shape);
    return stages.lines + stages.points + stages.products + stages.halves;
}

size_t cpu_winograd_scratch(ConvShape shape, int threads)
{
    return 2 * filters_numel(shape) + threads * thread_numel(shape);
}

void cpu_winograd_filters(ConvShape shape, const float *filters, float *scratch)
{
    const ptrdiff_t numel = (ptrdiff_t)shape.in_channels * shape.out_channels;
    float *lines = scratch + filters_numel(shape); // [POINTS][3][in][out], later the threads'
    evaluate_filters(3 * numel, filters, 3 * numel, lines, 3 * numel);
    for (int i = 0; i < POINTS; i++)
        evaluate_filters(numel, lines + 3 * i * numel, numel, scratch + POINTS * i * numel, numel);
}

void cpu_winograd_rows(ConvShape shape, int thread, const float *x, float *scratch, float *y)
{
    const int in = shape.in_channels, out = shape.out_channels, units = conv_out_size(shape) / 2;
    const ptrdiff_t in_row = (ptrdiff_t)shape.in_size * in, row = (ptrdiff_t)units * out;
    const ptrdiff_t out_row = (ptrdiff_t)conv_out_size(shape) * out;
    const Stages stages = stages_of(shape);
    float *lines = scratch + filters_numel(shape) + thread * thread_numel(shape);
    float *points = lines + stages.lines;
    float *products = points + stages.points;
    float *halves = products + stages.products;

    evaluate_pixels(in_row, x, in_row, lines, in_row);
    for (int i = 0; i < POINTS; i++)
        for (int unit = 0; unit < units; unit++)
            evaluate_pixels(in, lines + i * in_row + 2 * unit * in, in,
                            points + (POINTS * i * units + unit) * in, units * in);

    for (int i = 0; i < POINTS * POINTS; i++)
        cpu_product(&(Product){ .rows = units,
                                .columns = out,
                                .outer = 1,
                                .inner = in,
                                .a = points + i * units * in,
                                .a_row = in,
                                .a_inner = 1,
                                .b = scratch + (ptrdiff_t)i * in * out,
                                .b_inner = out,
                                .c = products + i * row,
                                .c_row = out });

    interpolate(POINTS * row, products, POINTS * row, halves, POINTS * row);
    for (int i = 0; i < 2; i++)
        for (int unit = 0; unit < units; unit++)
            interpolate(out, halves + POINTS * i * row + unit * out, row,
                        y + i * out_row + 2 * unit * out, out);
}
