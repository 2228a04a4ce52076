/* cuda_types.h - float, bf16 and fp16 under one name, for kernels templated on the type. */
#ifndef COMMON_NN_CUDA_CUDA_TYPES_H
#define COMMON_NN_CUDA_CUDA_TYPES_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/nn/amp.h"

static inline __device__ void store(float *to, float value)
{
    *to = value;
}

static inline __device__ void store(__nv_bfloat16 *to, float value)
{
    *to = __float2bfloat16(value);
}

static inline __device__ void store(__half *to, float value)
{
    *to = __float2half(value);
}

static inline __device__ float load(const float *from)
{
    return *from;
}

static inline __device__ float load(const __nv_bfloat16 *from)
{
    return __bfloat162float(*from);
}

static inline __device__ float load(const __half *from)
{
    return __half2float(*from);
}

/* Adjacent numbers that one instruction moves. */
template <typename T, int COUNT> struct alignas(sizeof(T) * COUNT) Pack {
    T value[COUNT];
};

/* function<the type that amp names>(arguments). */
#define FOR_TYPE(amp, function, ...) \
    do { \
        if ((amp) == AMP_BF16) \
            function<__nv_bfloat16>(__VA_ARGS__); \
        else if ((amp) == AMP_FP16) \
            function<__half>(__VA_ARGS__); \
        else \
            function<float>(__VA_ARGS__); \
    } while (0)

#endif
