/*
 * Products of matrices: one function of cuBLAS in every precision. float32 is full precision,
 * unless --tf32 on lets tensor cores take operands of 19 bits; bf16 and fp16 run on tensor cores
 * and accumulate in float32. cuBLAS is column-major: it sees our row-major matrices as their
 * transposes, so it is asked for C^T = B^T A^T.
 *
 * We provide its workspace: its own might be allocated while a step is captured. With one stream
 * per handle and no atomics, which are off by default, results are reproducible.
 */
#include "common/base/library.h"
#include "common/nn/cuda/cuda_state.h"

/* The functions of cuBLAS that this room calls, in a library that is opened with the first GPU. */
#define LIBRARY "libcublas.so." LIBRARY_TEXT(CUBLAS_VER_MAJOR)
#define NEEDED_BY "--device cuda"
#define CUBLAS(name, parameters, arguments) \
    LIBRARY_FUNCTION(cublasStatus_t, name, parameters, arguments)

CUBLAS(cublasCreate, (cublasHandle_t * handle), (handle))
CUBLAS(cublasDestroy, (cublasHandle_t handle), (handle))
CUBLAS(cublasSetStream, (cublasHandle_t handle, cudaStream_t stream), (handle, stream))
CUBLAS(cublasSetWorkspace, (cublasHandle_t handle, void *memory, size_t bytes),
       (handle, memory, bytes))
LIBRARY_FUNCTION(const char *, cublasGetStatusString, (cublasStatus_t status), (status))

CUBLAS(cublasGemmEx,
       (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
        const void *alpha, const void *a, cudaDataType type_a, int lda, const void *b,
        cudaDataType type_b, int ldb, const void *beta, void *c, cudaDataType type_c, int ldc,
        cublasComputeType_t compute, cublasGemmAlgo_t algo),
       (handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc,
        compute, algo))

#define CUBLAS_CHECK(call) \
    do { \
        const cublasStatus_t status = (call); \
        CHECK(status == CUBLAS_STATUS_SUCCESS, "%s:%d: %s: %s", __FILE__, __LINE__, #call, \
              cublasGetStatusString(status)); \
    } while (0)

enum { WORKSPACE_BYTES = 32 << 20 }; // NVIDIA's recommendation for Hopper, the largest

void cuda_product_init(Device *device)
{
    CudaState *state = cuda_state(device);
    CUDA_CHECK(cudaMalloc(&state->workspace, WORKSPACE_BYTES));
    CUBLAS_CHECK(cublasCreate(&state->blas));
    CUBLAS_CHECK(cublasSetStream(state->blas, state->stream));
    CUBLAS_CHECK(cublasSetWorkspace(state->blas, state->workspace, WORKSPACE_BYTES));
}

void cuda_product_free(Device *device)
{
    CudaState *state = cuda_state(device);
    CUBLAS_CHECK(cublasDestroy(state->blas));
    CUDA_CHECK(cudaFree(state->workspace));
}

static cudaDataType type_of(Amp amp)
{
    return amp == AMP_BF16 ? CUDA_R_16BF : amp == AMP_FP16 ? CUDA_R_16F : CUDA_R_32F;
}

void cuda_product(const Device *device, const CudaProduct *p)
{
    const float one = 1, beta = p->add ? 1 : 0;
    const bool rounds = device->tf32 && p->amp == AMP_OFF;
    CUBLAS_CHECK(cublasGemmEx(
        cuda_state(device)->blas, p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
        p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p->columns, p->rows, p->depth, &one, p->b,
        type_of(p->amp), p->b_transposed ? p->depth : p->columns, p->a, type_of(p->amp),
        p->a_transposed ? p->rows : p->depth, &beta, p->c, type_of(p->c_amp), p->columns,
        rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}
