/* cuda_bf16.h - bf16: the upper half of a float, rounded to nearest, ties to even. */
#ifndef STAND_IN_CUDA_BF16_H
#define STAND_IN_CUDA_BF16_H

#include <string.h>

typedef struct __nv_bfloat16 {
    unsigned short bits;
#ifdef __cplusplus // the language of kernels: conversions from and to float
    __nv_bfloat16() = default;
    inline __nv_bfloat16(float number);
    inline operator float() const;
#endif
} __nv_bfloat16;

static inline float __bfloat162float(__nv_bfloat16 value)
{
    const unsigned bits = (unsigned)value.bits << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

static inline __nv_bfloat16 __float2bfloat16(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    __nv_bfloat16 result;
    if ((bits & 0x7fffffff) > 0x7f800000)
        result.bits = 0x7fff; // NaN
    else
        result.bits = (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    return result;
}

#ifdef __cplusplus
__nv_bfloat16::__nv_bfloat16(float number)
{
    *this = __float2bfloat16(number);
}

__nv_bfloat16::operator float() const
{
    return __bfloat162float(*this);
}
#endif

#endif
