/* numbers.h - arrays of float, bf16 and fp16, as cuBLAS and cuDNN read and write them. */
#ifndef TESTS_CUDA_STAND_IN_NUMBERS_H
#define TESTS_CUDA_STAND_IN_NUMBERS_H

#include <stdint.h>
#include <string.h>

#include "include/cuda_bf16.h"
#include "include/cuda_fp16.h"
#include "include/library_types.h"

static inline size_t type_bytes(cudaDataType type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static inline float number_at(const void *data, cudaDataType type, long i)
{
    if (type == CUDA_R_16BF)
        return __bfloat162float(((const __nv_bfloat16 *)data)[i]);
    if (type == CUDA_R_16F)
        return __half2float(((const __half *)data)[i]);
    return ((const float *)data)[i];
}

static inline void set_number(void *data, cudaDataType type, long i, float value)
{
    if (type == CUDA_R_16BF)
        ((__nv_bfloat16 *)data)[i] = __float2bfloat16(value);
    else if (type == CUDA_R_16F)
        ((__half *)data)[i] = __float2half(value);
    else
        ((float *)data)[i] = value;
}

/* Rounds to nearest, ties away from zero. */
static inline float to_tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000)
        bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

#endif
