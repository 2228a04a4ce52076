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
 * matrix product. Only the rounding differs from the plain sum. Channels must form whole vectors.
 */
#include "extras/fast_cpu/cpu_kernels.h"
#include "extras/fast_cpu/cpu_product.h"

enum { PRODUCTS = 4 }; // number of products along an axis

/* The three transforms, along one axis. */
static inline void transform_weights(const Vector *from, Vector *to)
{
    to[0] = from[0];
    to[1] = (from[0] + from[1] + from[2]) / 2;
    to[2] = (from[0] - from[1] + from[2]) / 2;
    to[3] = from[2];
}

static inline void transform_pixels(const Vector *from, Vector *to)
{
    to[0] = from[0] - from[2];
    to[1] = from[1] + from[2];
    to[2] = from[2] - from[1];
    to[3] = from[1] - from[3];
}

static inline void transform_products(const Vector *from, Vector *to)
{
    to[0] = from[0] + from[1] + from[2];
    to[1] = from[1] - from[2] - from[3];
}

/* Transforms n windows of `size` x `size` numbers vertically, then horizontally, to `result` x
 * `result`, in registers; i is the window: from[row * from_row + column * from_column + i]. */
INLINE void transform(void along(const Vector *, Vector *), const int size, const int result,
                      ptrdiff_t n, const float *from, ptrdiff_t from_row, ptrdiff_t from_column,
                      float *to, ptrdiff_t to_row, ptrdiff_t to_column)
{
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        Vector line[PRODUCTS][PRODUCTS], in[PRODUCTS], out[PRODUCTS];
        for (int column = 0; column < size; column++) {
            for (int row = 0; row < size; row++)
                in[row] = *(const Vector *)(from + row * from_row + column * from_column + i);
            along(in, out);
            for (int row = 0; row < result; row++)
                line[row][column] = out[row];
        }
        for (int row = 0; row < result; row++) {
            along(line[row], out);
            for (int column = 0; column < result; column++)
                *(Vector *)(to + row * to_row + column * to_column + i) = out[column];
        }
    }
}

/* Returns the size of the transformed weights, [PRODUCTS][PRODUCTS][in][out]. */
static ptrdiff_t weights_numel(ConvShape shape)
{
    return (ptrdiff_t)PRODUCTS * PRODUCTS * shape.in_channels * shape.out_channels;
}

/* Returns the size of a thread's scratch for a pair of rows, in units of 2 x 2 outputs: pixels,
 * [PRODUCTS][PRODUCTS][units][in], and their products with the weights, [..][..][units][out]. */
static ptrdiff_t thread_numel(ConvShape shape)
{
    const ptrdiff_t units = conv_out_size(shape) / 2;
    return PRODUCTS * PRODUCTS * units * (shape.in_channels + shape.out_channels);
}

bool cpu_winograd_fits(ConvShape shape)
{
    return shape.kernel == 3 && shape.in_channels % LANES == 0 && shape.out_channels % LANES == 0;
}

/* The weights come first, then the threads' scratch. */
size_t cpu_winograd_scratch(ConvShape shape, int threads)
{
    return weights_numel(shape) + threads * thread_numel(shape);
}

void cpu_winograd_filters(ConvShape shape, const float *filters, float *scratch)
{
    const int numel = shape.in_channels * shape.out_channels;
    transform(transform_weights, 3, PRODUCTS, numel, filters, 3 * numel, numel, scratch,
              PRODUCTS * numel, numel);
}

void cpu_winograd_rows(ConvShape shape, int thread, const float *x, float *scratch, float *y)
{
    const int in = shape.in_channels, out = shape.out_channels, units = conv_out_size(shape) / 2;
    const ptrdiff_t in_row = (ptrdiff_t)shape.in_size * in, row = (ptrdiff_t)units * out;
    const ptrdiff_t y_row = (ptrdiff_t)conv_out_size(shape) * out;
    float *pixels = scratch + weights_numel(shape) + thread * thread_numel(shape);
    float *products = pixels + PRODUCTS * PRODUCTS * units * in;

    for (int unit = 0; unit < units; unit++)
        transform(transform_pixels, PRODUCTS, PRODUCTS, in, x + 2 * unit * in, in_row, in,
                  pixels + unit * in, PRODUCTS * units * in, units * in);

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

    for (int unit = 0; unit < units; unit++)
        transform(transform_products, PRODUCTS, 2, out, products + unit * out, PRODUCTS * row, row,
                  y + 2 * unit * out, y_row, out);
}
