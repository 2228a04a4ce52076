/*
 * Products of matrices, for all layers. A tile of C, TILE_ROWS rows of TILE_VECTORS vectors, stays
 * in registers while the sum runs: each step loads one vector per column and one number per row and
 * uses each of them several times, so that the processor multiplies instead of waiting for memory.
 * (A product with a tile of one number is ten times slower.) The edges are covered by smaller
 * tiles. Every number of C is one sum in a fixed order, whatever tile it is in.
 */
#include "extras/fast_cpu/cpu_product.h"

#include <math.h>

enum { TILE_ROWS = 6 };

/* a * b + sum, rounded once if the processor can. In a tile it always is; but the compiler may
 * split sums of single numbers, depending on count and alignment, and then round some twice. */
#ifdef FP_FAST_FMAF
static inline float multiply_add(float a, float b, float sum)
{
    return fmaf(a, b, sum);
}
#else
static inline float multiply_add(float a, float b, float sum)
{
    return a * b + sum;
}
#endif

INLINE void tile(const Product *p, const int rows, const int vectors, int row, int column)
{
    float *c = p->c + row * p->c_row + column;
    Vector sum[TILE_ROWS][TILE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = p->add ? *(Vector *)(c + i * p->c_row + j * LANES) : (Vector){ 0 };

    const ptrdiff_t a_row = p->a_row;
    for (int outer = 0; outer < p->outer; outer++) {
        const float *a = p->a + row * a_row + outer * p->a_outer;
        const float *b = p->b + column + outer * p->b_outer;
        for (int inner = 0; inner < p->inner; inner++, a += p->a_inner, b += p->b_inner) {
            Vector loaded[TILE_VECTORS];
            for (int j = 0; j < vectors; j++)
                loaded[j] = *(const Vector *)(b + j * LANES);
            for (int i = 0; i < rows; i++)
                for (int j = 0; j < vectors; j++)
                    sum[i][j] += a[i * a_row] * loaded[j];
        }
    }

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            *(Vector *)(c + i * p->c_row + j * LANES) = sum[i][j];
}

INLINE void all_rows(const Product *p, const int vectors, int column)
{
    int i = 0;
    for (; i + TILE_ROWS <= p->rows; i += TILE_ROWS)
        tile(p, TILE_ROWS, vectors, i, column);
    for (; i + TILE_ROWS / 2 <= p->rows; i += TILE_ROWS / 2)
        tile(p, TILE_ROWS / 2, vectors, i, column);
    for (; i < p->rows; i++)
        tile(p, 1, vectors, i, column);
}

static void one_column(const Product *p, int column)
{
    for (int i = 0; i < p->rows; i++) {
        float sum = p->add ? p->c[i * p->c_row + column] : 0;
        for (int outer = 0; outer < p->outer; outer++) {
            const float *a = p->a + i * p->a_row + outer * p->a_outer;
            const float *b = p->b + column + outer * p->b_outer;
            for (int inner = 0; inner < p->inner; inner++)
                sum = multiply_add(a[inner * p->a_inner], b[inner * p->b_inner], sum);
        }
        p->c[i * p->c_row + column] = sum;
    }
}

void cpu_product(const Product *product)
{
    const Product copy = *product, *p = &copy; // which C cannot overlap
    int j = 0;
    for (; j + TILE_VECTORS * LANES <= p->columns; j += TILE_VECTORS * LANES)
        all_rows(p, TILE_VECTORS, j);
    for (; j + 2 * LANES <= p->columns; j += 2 * LANES)
        all_rows(p, 2, j);
    for (; j + LANES <= p->columns; j += LANES)
        all_rows(p, 1, j);
    for (; j < p->columns; j++)
        one_column(p, j);
}

/* Computes a tile whose sums run along the vectors: the lanes are added at the end. */
INLINE void dot_tile(const DotProducts *p, const int rows, const int columns, int row, int column)
{
    const float *a = p->a + row * p->stride, *b = p->b + column * p->stride;
    Vector sum[TILE_ROWS][TILE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            sum[i][j] = (Vector){ 0 };

    int k = 0;
    for (; k + LANES <= p->depth; k += LANES) {
        Vector loaded[TILE_VECTORS];
        for (int j = 0; j < columns; j++)
            loaded[j] = *(const Vector *)(b + j * p->stride + k);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++)
                sum[i][j] += *(const Vector *)(a + i * p->stride + k) * loaded[j];
    }

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            float total = vector_sum(&sum[i][j]);
            for (int rest = k; rest < p->depth; rest++)
                total = multiply_add(a[i * p->stride + rest], b[j * p->stride + rest], total);
            p->c[(row + i) * p->c_row + column + j] += total;
        }
}

void cpu_dot_products(const DotProducts *p)
{
    int j = 0;
    for (; j + TILE_VECTORS <= p->columns; j += TILE_VECTORS) {
        int i = 0;
        for (; i + TILE_ROWS <= p->rows; i += TILE_ROWS)
            dot_tile(p, TILE_ROWS, TILE_VECTORS, i, j);
        for (; i + TILE_ROWS / 2 <= p->rows; i += TILE_ROWS / 2)
            dot_tile(p, TILE_ROWS / 2, TILE_VECTORS, i, j);
        for (; i < p->rows; i++)
            dot_tile(p, 1, TILE_VECTORS, i, j);
    }
    for (; j < p->columns; j++)
        for (int i = 0; i < p->rows; i++)
            dot_tile(p, 1, 1, i, j);
}
