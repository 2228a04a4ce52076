/* bf16.h - the upper half of a float: the same range, 8 bits of precision. */
#ifndef BEYOND_BF16_H
#define BEYOND_BF16_H

#include <math.h>
#include <stdint.h>

#define BF16_NAN 0x7fc0

typedef union {
    float value;
    uint32_t bits;
} Bf16Word;

static inline float from_bf16(uint16_t bits)
{
    return (Bf16Word){ .bits = (uint32_t)bits << 16 }.value;
}

/* Rounds to nearest even. A nan stays one, so that the check for divergence sees it. */
static inline uint16_t to_bf16(float value)
{
    const uint32_t bits = (Bf16Word){ .value = value }.bits;
    return isnan(value) ? BF16_NAN : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#endif
