/*
 * The products of cpu_bf16.c for processors without the bf16 instruction: numbers are rounded to
 * bf16 and multiplied as float32. A bf16 is the upper half of a float32, so a pair needs one shift
 * or one mask for each of its two numbers, and their products are exact.
 */
#include "extras/fast_cpu/cpu_bf16.h"
#include "extras/fast_cpu/cpu_product.h"

#ifndef __AVX512BF16__

#include <string.h>

enum { TILE_ROWS = 4, DOT_ROWS = 3, DOT_COLUMNS = 2 };

typedef uint32_t Words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define UPPER 0xffff0000u
#define FIRST(pairs) ((Vector)((pairs) << 16))
#define SECOND(pairs) ((Vector)((pairs)&UPPER))

bool cpu_bf16_has_instruction(void)
{
    return false;
}

static inline float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE void tile(const PairProduct *p, const int rows, const int vectors, int row, int column)
{
    float *c = p->c + row * p->c_row + column;
    Vector sum[TILE_ROWS][TILE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = p->add ? *(Vector *)(c + i * p->c_row + j * LANES) : (Vector){ 0 };

    const Bf16Pair *b = p->b + column;
    for (int outer = 0; outer < p->outer; outer++) {
        const Bf16Pair *a = p->a + row * p->a_row + outer * p->a_outer;
        for (int inner = 0; inner < p->inner; inner++, a++, b += p->b_row)
            for (int j = 0; j < vectors; j++) {
                const Words pairs = *(const Words *)(b + j * LANES);
                const Vector first = FIRST(pairs), second = SECOND(pairs);
                for (int i = 0; i < rows; i++) {
                    sum[i][j] += as_float(a[i * p->a_row] << 16) * first;
                    sum[i][j] += as_float(a[i * p->a_row] & UPPER) * second;
                }
            }
    }

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            *(Vector *)(c + i * p->c_row + j * LANES) = sum[i][j];
}

INLINE void all_rows(const PairProduct *p, const int vectors, int column)
{
    int i = 0;
    for (; i + TILE_ROWS <= p->rows; i += TILE_ROWS)
        tile(p, TILE_ROWS, vectors, i, column);
    for (; i < p->rows; i++)
        tile(p, 1, vectors, i, column);
}

/* Computes fewer columns than a vector has, in a vector of their own padded with zeros. */
static void last_columns(const PairProduct *p, int column)
{
    const int count = p->columns - column;
    for (int row = 0; row < p->rows; row++) {
        float c[LANES] = { 0 };
        float *out = p->c + row * p->c_row + column;
        const Bf16Pair *b = p->b + column;
        if (p->add)
            memcpy(c, out, count * sizeof *c);
        Vector sum = *(Vector *)c;
        for (int outer = 0; outer < p->outer; outer++)
            for (int inner = 0; inner < p->inner; inner++, b += p->b_row) {
                const Bf16Pair a = p->a[row * p->a_row + outer * p->a_outer + inner];
                Bf16Pair line[LANES] = { 0 };
                memcpy(line, b, count * sizeof *line);
                const Words pairs = *(const Words *)line;
                sum += as_float(a << 16) * FIRST(pairs);
                sum += as_float(a & UPPER) * SECOND(pairs);
            }
        *(Vector *)c = sum;
        memcpy(out, c, count * sizeof *c);
    }
}

void cpu_bf16_product(const PairProduct *p)
{
    int j = 0;
    for (; j + TILE_VECTORS * LANES <= p->columns; j += TILE_VECTORS * LANES)
        all_rows(p, TILE_VECTORS, j);
    for (; j + LANES <= p->columns; j += LANES)
        all_rows(p, 1, j);
    if (j < p->columns)
        last_columns(p, j);
}

INLINE void dot_tile(const PairDots *p, const int rows, const int columns, int row, int column)
{
    const Bf16Pair *a = p->a + row * p->a_row, *b = p->b + column * p->b_row;
    Vector sum[DOT_ROWS][DOT_COLUMNS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            sum[i][j] = (Vector){ 0 };
    for (int k = 0; k < p->depth; k += LANES)
        for (int j = 0; j < columns; j++) {
            const Words right = *(const Words *)(b + j * p->b_row + k);
            for (int i = 0; i < rows; i++) {
                const Words left = *(const Words *)(a + i * p->a_row + k);
                sum[i][j] += FIRST(left) * FIRST(right);
                sum[i][j] += SECOND(left) * SECOND(right);
            }
        }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            p->c[(row + i) * p->c_row + column + j] += vector_sum(&sum[i][j]);
}

void cpu_bf16_dots(const PairDots *p)
{
    int j = 0;
    for (; j + DOT_COLUMNS <= p->columns; j += DOT_COLUMNS) {
        int i = 0;
        for (; i + DOT_ROWS <= p->rows; i += DOT_ROWS)
            dot_tile(p, DOT_ROWS, DOT_COLUMNS, i, j);
        for (; i < p->rows; i++)
            dot_tile(p, 1, DOT_COLUMNS, i, j);
    }
    for (; j < p->columns; j++)
        for (int i = 0; i < p->rows; i++)
            dot_tile(p, 1, 1, i, j);
}

void cpu_bf16_round(size_t count, const float *from, Bf16Pair *to)
{
    for (size_t i = 0; i + 2 <= count; i += 2)
        to[i / 2] = cpu_bf16_bits(from[i]) | cpu_bf16_bits(from[i + 1]) << 16;
    if (count % 2 == 1)
        to[count / 2] = cpu_bf16_bits(from[count - 1]);
}

void cpu_bf16_interleave(size_t count, const float *above, const float *below, Bf16Pair *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = cpu_bf16_bits(above[i]) | (below != NULL ? cpu_bf16_bits(below[i]) << 16 : 0);
}

#endif
