/* cuda_fp16.h - fp16, which the host's compiler knows as _Float16. */
#ifndef STAND_IN_CUDA_FP16_H
#define STAND_IN_CUDA_FP16_H

typedef struct {
    _Float16 value;
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

#endif
