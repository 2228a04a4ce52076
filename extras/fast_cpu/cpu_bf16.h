/*
 * cpu_bf16.h - products with operands rounded to bf16, for --amp bf16.
 */
#ifndef EXTRAS_FAST_CPU_CPU_BF16_H
#define EXTRAS_FAST_CPU_CPU_BF16_H

#include <string.h>

#include "common/nn/device.h"

/* What is rounded: products of linear layers with at least this many outputs; and convolutions with
 * pooling whose images have an even number of channels, which form pairs. */
enum { CPU_BF16_OUTPUTS = 32 };

static inline bool cpu_bf16_rounds_conv(ConvShape shape, const uint8_t *argmax)
{
    return argmax != NULL && shape.in_channels % 2 == 0;
}

/* Rounds as the instruction does: to the nearest, ties to even; denormals to 0. */
static inline uint32_t cpu_bf16_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude < 1u << 23)
        return bits >> 31 << 15;
    if (magnitude > 0x7f800000u) // a NaN stays one
        return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* The instruction multiplies pairs: two bf16, adjacent in the sum, in one word. */
typedef uint32_t Bf16Pair;

/* C = A B, or C += A B; the sum runs over outer x inner pairs. Like Product in cpu_product.h. */
typedef struct {
    int rows, columns; // size of C
    int outer, inner; // ranges of the sum, in pairs
    const Bf16Pair *a; // a[row * a_row + o * a_outer + i]
    ptrdiff_t a_row, a_outer;
    const Bf16Pair *b; // b[(o * inner + i) * b_row + column]
    ptrdiff_t b_row;
    float *c; // c[row * c_row + column]
    ptrdiff_t c_row;
    bool add;
} PairProduct;

/* Returns true in builds for CPUs that multiply bf16 (AVX512_BF16). Others multiply in float32. */
bool cpu_bf16_has_instruction(void);
void cpu_bf16_product(const PairProduct *product);

/* C += A B^T: each element is the dot product of a row of A and a row of B. */
typedef struct {
    int rows, columns; // size of C
    int depth; // length of the dot products, in pairs; a multiple of 16
    const Bf16Pair *a, *b;
    ptrdiff_t a_row, b_row; // distance between rows
    float *c; // c[row * c_row + column]
    ptrdiff_t c_row;
} PairDots;

void cpu_bf16_dots(const PairDots *dots);

/* Rounds numbers in order, two to a pair, padding an odd last one with 0. Denormals become 0. */
void cpu_bf16_round(size_t count, const float *from, Bf16Pair *to);
/* Rounds two rows into one of pairs; if below is NULL, with zeros. */
void cpu_bf16_interleave(size_t count, const float *above, const float *below, Bf16Pair *to);

/* Replaces the kernels, and their reserve functions, of layers with large products. */
void cpu_bf16_ops(DeviceOps *ops);

#endif
