/*
 * The linear layer: y = x W^T + b, dW = dy^T x, dx = dy W. The weight of the first one has a
 * million numbers, each used once per image: so it matters that a piece of it, once it is in a
 * cache, serves the whole batch before the next one comes. Threads share the columns of what is
 * computed.
 */
#include <string.h>

#include "common/nn/cpu_kernels.h"
#include "common/nn/cpu_product.h"

enum {
    DOT_DEPTH = 1024, // so much of 64 rows of inputs fits into the L2 cache
    PANEL_DEPTH = 128, // and such a panel, 32 KiB, into the L1 cache
    PANEL_COLUMNS = 64,
};

/* Every thread meets the same columns at each depth, so that none has to wait for another. */
static void dot_products(int threads, int n, int in, int out, const float *x, const float *weight,
                         float *y)
{
#pragma omp parallel num_threads(threads)
    for (int k = 0; k < in; k += DOT_DEPTH) {
#pragma omp for schedule(static) nowait
        for (int j = 0; j < out; j += TILE_VECTORS)
            cpu_dot_products(&(DotProducts){ .rows = n,
                                             .columns = cpu_min(TILE_VECTORS, out - j),
                                             .depth = cpu_min(DOT_DEPTH, in - k),
                                             .a = x + k,
                                             .b = weight + (ptrdiff_t)j * in + k,
                                             .stride = in,
                                             .c = y + j,
                                             .c_row = out });
    }
}

void cpu_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                const float *weight, const float *bias, float *y)
{
    for (int row = 0; row < n; row++)
        memcpy(y + (ptrdiff_t)row * out, bias, out * sizeof *y);
    dot_products(cpu_threads(device, (double)n * in * out), n, in, out, x, weight, y);
    if (relu)
        for (ptrdiff_t i = 0; i < (ptrdiff_t)n * out; i++)
            y[i] = y[i] > 0 ? y[i] : 0;
}

void cpu_relu_gate(size_t count, const float *restrict y, float scale, float *restrict dy)
{
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0 ? dy[i] * scale : 0;
}

void cpu_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy)
{
    (void)device; // a batch has few of them
    cpu_relu_gate(count, y, scale, dy);
}

void cpu_add_rows(int rows, int columns, const float *restrict values, float *restrict sums)
{
    for (int row = 0; row < rows; row++, values += columns)
        for (int j = 0; j < columns; j++)
            sums[j] += values[j];
}

/* A product whose B has long rows, panel by panel. Rows of a panel may lie a multiple of 4 KiB
 * apart, and then they push each other out of the cache; so a panel is copied together first. */
static void product_by_panels(Device *device, const Product *p)
{
    const int threads = cpu_threads(device, (double)p->rows * p->columns * p->inner);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int column = 0; column < p->columns; column += PANEL_COLUMNS) {
        _Alignas(64) float panel[PANEL_DEPTH][PANEL_COLUMNS];
        Product part = *p;
        part.columns = cpu_min(PANEL_COLUMNS, p->columns - column);
        part.b = panel[0];
        part.b_inner = PANEL_COLUMNS;
        part.c = p->c + column;
        for (int k = 0; k < p->inner; k += PANEL_DEPTH) {
            part.inner = cpu_min(PANEL_DEPTH, p->inner - k);
            for (int i = 0; i < part.inner; i++)
                memcpy(panel[i], p->b + (k + i) * p->b_inner + column,
                       part.columns * sizeof(float));
            part.a = p->a + k * p->a_inner;
            cpu_product(&part);
            part.add = true;
        }
    }
}

void cpu_linear_grad_params(Device *device, int n, int in, int out, const float *x, const float *dy,
                            float *dweight, float *dbias)
{
    cpu_add_rows(n, out, dy, dbias);
    product_by_panels(device, &(Product){ .rows = out,
                                          .columns = in,
                                          .outer = 1,
                                          .inner = n,
                                          .a = dy,
                                          .a_row = 1,
                                          .a_inner = out,
                                          .b = x,
                                          .b_inner = in,
                                          .c = dweight,
                                          .c_row = in,
                                          .add = true });
}

void cpu_linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                           const float *weight, float *dx)
{
    product_by_panels(device, &(Product){ .rows = n,
                                          .columns = in,
                                          .outer = 1,
                                          .inner = out,
                                          .a = dy,
                                          .a_row = out,
                                          .a_inner = 1,
                                          .b = weight,
                                          .b_inner = in,
                                          .c = dx,
                                          .c_row = in });
}
