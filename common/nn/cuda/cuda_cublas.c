/* The functions of cuBLAS that this room calls, in a library that is opened with the first GPU. */
#include <cublas_v2.h>

#include "common/base/library.h"

#define LIBRARY "libcublas.so." LIBRARY_TEXT(CUBLAS_VER_MAJOR)
#define NEEDED_BY "--device cuda"
#define CUBLAS(name, parameters, arguments) \
    LIBRARY_FUNCTION(cublasStatus_t, name, parameters, arguments)

CUBLAS(cublasCreate, (cublasHandle_t * handle), (handle))
CUBLAS(cublasDestroy, (cublasHandle_t handle), (handle))
CUBLAS(cublasSetStream, (cublasHandle_t handle, cudaStream_t stream), (handle, stream))
CUBLAS(cublasSetWorkspace, (cublasHandle_t handle, void *memory, size_t bytes),
       (handle, memory, bytes))
CUBLAS(cublasSetMathMode, (cublasHandle_t handle, cublasMath_t mode), (handle, mode))
LIBRARY_FUNCTION(const char *, cublasGetStatusString, (cublasStatus_t status), (status))

CUBLAS(cublasGemmEx,
       (cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
        const void *alpha, const void *a, cudaDataType type_a, int lda, const void *b,
        cudaDataType type_b, int ldb, const void *beta, void *c, cudaDataType type_c, int ldc,
        cublasComputeType_t compute, cublasGemmAlgo_t algo),
       (handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c, type_c, ldc,
        compute, algo))
