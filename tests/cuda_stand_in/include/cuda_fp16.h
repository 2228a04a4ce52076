/* cuda_fp16.h - fp16, which the host's compiler knows as _Float16. */
#ifndef STAND_IN_CUDA_FP16_H
#define STAND_IN_CUDA_FP16_H

typedef struct __half {
    _Float16 value;
#ifdef __cplusplus // the language of kernels: conversions from and to float
    __half() = default;
    inline __half(float number);
    inline operator float() const;
#endif
} __half;

static inline float __half2float(__half half)
{
    return (float)half.value;
}

static inline __half __float2half(float value)
{
    __half half;
    half.value = (_Float16)value;
    return half;
}

#ifdef __cplusplus
__half::__half(float number)
{
    *this = __float2half(number);
}

__half::operator float() const
{
    return __half2float(*this);
}
#endif

#endif
