/*
 * cublas.cu - the reference for the rungs: cuBLAS's product alone, of a matrix of windows that lies
 * in memory already, in float32 and in fp16. It also rounds to fp16 what later rungs read.
 */
#include "extras/gpu_ladder/conv2_cuda.h"

extern "C" {
#include "common/base/log.h"
}

enum { BLOCK = 256 };

static __global__ void to_fp16(const float *from, __half *to, int numel)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < numel)
        to[i] = __float2half(from[i]);
}

static __global__ void columns_of(const float *x, float *columns, __half *columns16)
{
    const size_t i = my_index<BLOCK>();
    columns[i] = x[window_begin((int)(i / DEPTH)) + window_offset((int)(i % DEPTH))];
    columns16[i] = __float2half(columns[i]);
}

void conv2_prepare(const Conv2 *conv)
{
    const int x_numel = conv->images * IN_SIZE * IN_SIZE * CHANNELS;
    LAUNCH(to_fp16, cuda_blocks(x_numel, BLOCK), BLOCK, conv->stream, conv->x, (__half *)conv->x16,
           x_numel);
    LAUNCH(to_fp16, cuda_blocks(FILTERS * DEPTH, BLOCK), BLOCK, conv->stream, conv->weight,
           (__half *)conv->weight16, FILTERS * DEPTH);
    LAUNCH(columns_of, conv->images * (WINDOWS * DEPTH / BLOCK), BLOCK, conv->stream, conv->x,
           conv->columns, (__half *)conv->columns16);
}

static void product(const Conv2 *conv, const void *weight, const void *columns, cudaDataType type)
{
    const float one = 1, zero = 0;
    const cublasStatus_t status =
        cublasGemmEx(conv->blas, CUBLAS_OP_T, CUBLAS_OP_N, FILTERS, conv->images * WINDOWS, DEPTH,
                     &one, weight, type, DEPTH, columns, type, DEPTH, &zero, conv->y, CUDA_R_32F,
                     FILTERS, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    CHECK(status == CUBLAS_STATUS_SUCCESS, "cublasGemmEx: %s", cublasGetStatusString(status));
}

void conv2_cublas(const Conv2 *conv)
{
    product(conv, conv->weight, conv->columns, CUDA_R_32F);
}

void conv2_cublas16(const Conv2 *conv)
{
    product(conv, conv->weight16, conv->columns16, CUDA_R_16F);
}
