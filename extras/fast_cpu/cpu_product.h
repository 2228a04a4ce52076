/* cpu_product.h - products of matrices on one CPU thread, and the vectors they are made of. */
#ifndef EXTRAS_FAST_CPU_CPU_PRODUCT_H
#define EXTRAS_FAST_CPU_CPU_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

/* A vector of floats of the processor's width, at any address; and how many of them form a row of a
 * tile (see cpu_product.c): a tile just fits into 32 registers, or 16. */
#if defined(__AVX512F__)
enum { LANES = 16, TILE_VECTORS = 4 };
#elif defined(__AVX__)
enum { LANES = 8, TILE_VECTORS = 2 };
#else
enum { LANES = 4, TILE_VECTORS = 2 };
#endif
typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* An array of vectors is kept in registers only if the compiler can unroll all loops over it. So
 * functions with such loops are inlined into callers that pass constant bounds. */
#define INLINE static inline __attribute__((always_inline))

/* Sums a vector. By address, because gcc 14 for ARM cannot pass a vector of less than its usual
 * alignment. */
static inline float vector_sum(const Vector *vector)
{
    float lane[LANES];
    *(Vector *)lane = *vector;
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[half + i];
    return lane[0];
}

/* C = A B, or C += A B. Rows of B and C are contiguous; A may lie in any order. The sum runs over
 * outer x inner, because a window of an image is `outer` pieces of contiguous memory. */
typedef struct {
    int rows, columns; // size of C
    int outer, inner;
    const float *a; // a[row * a_row + o * a_outer + i * a_inner]
    ptrdiff_t a_row, a_outer, a_inner;
    const float *b; // b[o * b_outer + i * b_inner + column]
    ptrdiff_t b_outer, b_inner;
    float *c; // c[row * c_row + column]
    ptrdiff_t c_row;
    bool add;
} Product;

void cpu_product(const Product *product);

/* C += A B^T: each element is the dot product of a row of A and a row of B. */
typedef struct {
    int rows, columns; // size of C
    int depth; // length of the dot products
    const float *a, *b;
    ptrdiff_t stride; // distance between rows in A and in B
    float *c; // c[row * c_row + column]
    ptrdiff_t c_row;
} DotProducts;

void cpu_dot_products(const DotProducts *products);

#endif
