/*
 * The bf16 instruction adds two products, a pair of numbers times a pair, to each of 16 sums. So B
 * lies in pairs of rows, interleaved; an element of A is a pair too, used for all 16. The sums are
 * float32. Tiles of C stay in registers, as in cpu_product.c. For processors without that
 * instruction cpu_bf16_rounded.c computes the same.
 */
#include "extras/fast_cpu/cpu_bf16.h"

#ifdef __AVX512BF16__

#include <immintrin.h>

enum { LANES = 16, TILE_ROWS = 6, TILE_VECTORS = 4, DOT_ROWS = 4, DOT_COLUMNS = 4 };

#define INLINE static inline __attribute__((always_inline))

bool cpu_bf16_has_instruction(void)
{
    return true;
}

/* Computes a tile. The last vector of a row of C may be partial: `mask`. */
INLINE void tile(const PairProduct *p, const int rows, const int vectors, __mmask16 mask, int row,
                 int column)
{
    float *c = p->c + row * p->c_row + column;
    __m512 sum[TILE_ROWS][TILE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            sum[i][j] = p->add ? _mm512_maskz_loadu_ps(j == vectors - 1 ? mask : 0xffff,
                                                       c + i * p->c_row + j * LANES)
                               : _mm512_setzero_ps();

    const Bf16Pair *b = p->b + column;
    for (int outer = 0; outer < p->outer; outer++) {
        const Bf16Pair *a = p->a + row * p->a_row + outer * p->a_outer;
        for (int inner = 0; inner < p->inner; inner++, a++, b += p->b_row) {
            __m512bh loaded[TILE_VECTORS];
            for (int j = 0; j < vectors; j++)
                loaded[j] = (__m512bh)_mm512_maskz_loadu_epi32(j == vectors - 1 ? mask : 0xffff,
                                                               b + j * LANES);
            for (int i = 0; i < rows; i++)
                for (int j = 0; j < vectors; j++)
                    sum[i][j] = _mm512_dpbf16_ps(
                        sum[i][j], (__m512bh)_mm512_set1_epi32((int)a[i * p->a_row]), loaded[j]);
        }
    }

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vectors; j++)
            _mm512_mask_storeu_ps(c + i * p->c_row + j * LANES, j == vectors - 1 ? mask : 0xffff,
                                  sum[i][j]);
}

INLINE void all_rows(const PairProduct *p, const int vectors, __mmask16 mask, int column)
{
    int i = 0;
    for (; i + TILE_ROWS <= p->rows; i += TILE_ROWS)
        tile(p, TILE_ROWS, vectors, mask, i, column);
    for (; i + TILE_ROWS / 3 <= p->rows; i += TILE_ROWS / 3)
        tile(p, TILE_ROWS / 3, vectors, mask, i, column);
    for (; i < p->rows; i++)
        tile(p, 1, vectors, mask, i, column);
}

void cpu_bf16_product(const PairProduct *p)
{
    int j = 0;
    for (; j + TILE_VECTORS * LANES <= p->columns; j += TILE_VECTORS * LANES)
        all_rows(p, TILE_VECTORS, 0xffff, j);
    for (; j < p->columns; j += LANES)
        all_rows(p, 1, p->columns - j < LANES ? (1 << (p->columns - j)) - 1 : 0xffff, j);
}

INLINE void dot_tile(const PairDots *p, const int rows, const int columns, int row, int column)
{
    const Bf16Pair *a = p->a + row * p->a_row, *b = p->b + column * p->b_row;
    __m512 sum[DOT_ROWS][DOT_COLUMNS];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            sum[i][j] = _mm512_setzero_ps();
    for (int k = 0; k < p->depth; k += LANES) {
        __m512bh loaded[DOT_COLUMNS];
        for (int j = 0; j < columns; j++)
            loaded[j] = (__m512bh)_mm512_loadu_epi32(b + j * p->b_row + k);
        for (int i = 0; i < rows; i++) {
            const __m512bh line = (__m512bh)_mm512_loadu_epi32(a + i * p->a_row + k);
            for (int j = 0; j < columns; j++)
                sum[i][j] = _mm512_dpbf16_ps(sum[i][j], line, loaded[j]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            p->c[(row + i) * p->c_row + column + j] += _mm512_reduce_add_ps(sum[i][j]);
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

static __m256i round_16(__mmask16 mask, const float *from)
{
    return (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from));
}

void cpu_bf16_round(size_t count, const float *from, Bf16Pair *to)
{
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        _mm256_storeu_si256((__m256i *)(to + i / 2), round_16(0xffff, from + i));
    if (i < count)
        _mm256_mask_storeu_epi32(to + i / 2, (__mmask8)((1 << (count - i + 1) / 2) - 1),
                                 round_16((__mmask16)((1 << (count - i)) - 1), from + i));
}

void cpu_bf16_interleave(size_t count, const float *above, const float *below, Bf16Pair *to)
{
    for (size_t i = 0; i < count; i += LANES) {
        const __mmask16 mask = count - i < LANES ? (__mmask16)((1 << (count - i)) - 1) : 0xffff;
        const __m512i low = _mm512_cvtepu16_epi32(round_16(mask, above + i));
        const __m512i high = below != NULL ? _mm512_cvtepu16_epi32(round_16(mask, below + i))
                                           : _mm512_setzero_si512();
        _mm512_mask_storeu_epi32(to + i, mask, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
}

#endif
