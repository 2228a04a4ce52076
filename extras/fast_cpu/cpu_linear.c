/*
 * The linear layer: y = x W^T + b, dW = dy^T x, dx = dy W. The weight of the first one has a
 * million numbers, each used once per image, so a piece of it, once in a cache, must be used for
 * the whole batch before the next. Threads divide the columns of the result.
 */
#include <string.h>

#include "extras/fast_cpu/cpu_kernels.h"
#include "extras/fast_cpu/cpu_product.h"

enum {
    DOT_DEPTH = 1024, // 64 rows of inputs, cut to this, fit into the L2 cache
    PANEL_DEPTH = 128, // such a panel, 32 KiB, fits into the L1 cache
    PANEL_COLUMNS = 64,
    BLOCK_ROWS = 32, // rows of a panel that each shard sums separately
};

/* Computes dot products. A thread keeps its columns at each depth, so none waits for another. */
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
            y[i] = y[i] < 0 ? 0 : y[i];
}

/* Computes some columns of a product whose B has long rows, into c. Rows a multiple of 4 KiB apart
 * evict each other from the cache, so a panel is packed first. */
static void product_panel(const Product *p, int column, int columns, float *c)
{
    _Alignas(64) float panel[PANEL_DEPTH][PANEL_COLUMNS];
    Product part = *p;
    part.columns = columns;
    part.b = panel[0];
    part.b_inner = PANEL_COLUMNS;
    part.c = c;
    for (int k = 0; k < p->inner; k += PANEL_DEPTH) {
        part.inner = cpu_min(PANEL_DEPTH, p->inner - k);
        for (int i = 0; i < part.inner; i++)
            memcpy(panel[i], p->b + (k + i) * p->b_inner + column, columns * sizeof(float));
        part.a = p->a + k * p->a_inner;
        cpu_product(&part);
        part.add = true;
    }
}

/* Adds such a product to C, with the sum cut into shards. The shards' sums are combined block by
 * block, while they are in the cache. */
static void add_panel_of_shards(const Product *p, int shards, int column, int columns)
{
    _Alignas(64) float sums[CPU_MAX_SHARDS][BLOCK_ROWS * PANEL_COLUMNS];
    Product shard = *p;
    shard.inner = p->inner / shards;
    shard.a_inner = shards * p->a_inner;
    shard.b_inner = shards * p->b_inner;
    shard.c_row = columns;
    shard.add = false;
    for (int row = 0; row < p->rows; row += BLOCK_ROWS) {
        shard.rows = cpu_min(BLOCK_ROWS, p->rows - row);
        for (int s = 0; s < shards; s++) {
            shard.a = p->a + row * p->a_row + s * p->a_inner;
            shard.b = p->b + s * p->b_inner;
            product_panel(&shard, column, columns, sums[s]);
        }
        cpu_tree_sum(shards, (size_t)shard.rows * columns, BLOCK_ROWS * PANEL_COLUMNS, sums[0]);
        for (int i = 0; i < shard.rows; i++)
            cpu_add_rows(1, columns, sums[0] + i * columns, p->c + (row + i) * p->c_row + column);
    }
}

static void product_by_panels(Device *device, int shards, const Product *p)
{
    const int threads = cpu_threads(device, (double)p->rows * p->columns * p->inner);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int column = 0; column < p->columns; column += PANEL_COLUMNS) {
        const int columns = cpu_min(PANEL_COLUMNS, p->columns - column);
        if (shards > 0)
            add_panel_of_shards(p, shards, column, columns);
        else
            product_panel(p, column, columns, p->c + column);
    }
}

static void add_rows_of_shards(int shards, int rows, int columns, const float *values, float *sums)
{
    for (int j = 0; j < columns; j++) {
        float part[CPU_MAX_SHARDS] = { 0 };
        for (int row = 0; row < rows; row++)
            part[row % shards] += values[row * columns + j];
        cpu_tree_sum(shards, 1, 1, part);
        sums[j] += part[0];
    }
}

void cpu_linear_grad_params(Device *device, int n, int in, int out, const float *x, const float *dy,
                            float *dweight, float *dbias)
{
    if (device->shards > 0)
        add_rows_of_shards(device->shards, n, out, dy, dbias);
    else
        cpu_add_rows(n, out, dy, dbias);
    product_by_panels(device, device->shards,
                      &(Product){ .rows = out,
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
    product_by_panels(device, 0,
                      &(Product){ .rows = n,
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
