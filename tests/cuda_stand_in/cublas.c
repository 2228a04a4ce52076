/*
 * The matrix products of cuBLAS as loops: column-major, sums in float in the order of k. If
 * requested, operands are rounded as for tensor cores: to TF32's 10 bits, or by their type.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "include/cublas_v2.h"
#include "numbers.h"
#include "stand_in.h"

struct cublasContext {
    cudaStream_t stream;
    cublasMath_t mode;
    void *workspace;
    size_t workspace_bytes;
    int device;
};

/* One operand, whose element (row, column) has index row * row_step + column * column_step. */
typedef struct {
    const char *data;
    cudaDataType type;
    long row_step, column_step;
} Operand;

typedef struct {
    int m, n, k, batch, ldc;
    long long stride_a, stride_b, stride_c; // strides between matrices of the batch
    Operand a, b;
    float alpha, beta;
    char *c;
    cudaDataType type_c;
    bool tf32;
    void *workspace; // written to, so that a freed one is detected
} Product;

/* Returns a dense copy [columns][rows] in float. */
static float *unpack(const Operand *operand, long offset, int rows, int columns, bool tf32)
{
    float *dense = malloc(sizeof *dense * rows * columns + 1);
    const char *data = operand->data + offset * (long)type_bytes(operand->type);
#pragma omp parallel for
    for (int column = 0; column < columns; column++)
        for (int row = 0; row < rows; row++) {
            const float value = number_at(data, operand->type,
                                          row * operand->row_step + column * operand->column_step);
            dense[(size_t)column * rows + row] = tf32 ? to_tf32(value) : value;
        }
    return dense;
}

static void store(const Product *product, long i, float sum)
{
    const float value =
        product->alpha * sum +
        (product->beta != 0 ? product->beta * number_at(product->c, product->type_c, i) : 0);
    set_number(product->c, product->type_c, i, value);
}

/* Computes 4 columns of C at a time, each as m sums, to which B's rows contribute in order. */
static void multiply(const Product *product, long c_offset, const float *a, const float *b)
{
    const int m = product->m, n = product->n, k = product->k;
#pragma omp parallel for schedule(dynamic)
    for (int column = 0; column < n; column += 4) {
        const int columns = n - column < 4 ? n - column : 4;
        float *sums = calloc(4 * (size_t)m, sizeof *sums);
        for (int p = 0; p < k; p++)
            for (int j = 0; j < columns; j++) {
                const float factor = b[(size_t)(column + j) * k + p];
                const float *restrict from = a + (size_t)p * m;
                float *restrict to = sums + (size_t)j * m;
                for (int i = 0; i < m; i++)
                    to[i] += from[i] * factor;
            }
        for (int j = 0; j < columns; j++)
            for (int i = 0; i < m; i++)
                store(product, c_offset + (long)(column + j) * product->ldc + i,
                      sums[(size_t)j * m + i]);
        free(sums);
    }
}

static void run_product(void *arguments)
{
    const Product *product = arguments;
    stand_in_count.launches++;
    if (product->workspace != NULL)
        memset(product->workspace, 0xff, 1);
    for (int i = 0; i < product->batch; i++) {
        float *a =
            unpack(&product->a, i * product->stride_a, product->m, product->k, product->tf32);
        float *b =
            unpack(&product->b, i * product->stride_b, product->k, product->n, product->tf32);
        multiply(product, i * product->stride_c, a, b);
        free(a);
        free(b);
    }
}

/* Returns the elements spanned by all matrices of a batch with leading dimension ld. */
static size_t span(int rows, int columns, int ld, long long stride, int batch, cudaDataType type)
{
    return (size_t)(stride * (batch - 1) + (long long)ld * (columns - 1) + rows) * type_bytes(type);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType type_a,
                                          int lda, long long stride_a, const void *b,
                                          cudaDataType type_b, int ldb, long long stride_b,
                                          const void *beta, void *c, cudaDataType type_c, int ldc,
                                          long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    (void)algo;
    LOCKED;
    const bool at = op_a == CUBLAS_OP_T, bt = op_b == CUBLAS_OP_T;
    if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < (at ? k : m) || ldb < (bt ? n : k) ||
        ldc < m || lda < 1 || ldb < 1 || ldc < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (type_a != type_b || (type_c != type_a && type_c != CUDA_R_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (m == 0 || n == 0 || batch == 0)
        return CUBLAS_STATUS_SUCCESS;
    const int device = stand_in_stream_device(handle->stream);
    stand_in_check_range("cuBLAS, matrix A", device, a,
                         span(at ? k : m, at ? m : k, lda, stride_a, batch, type_a));
    stand_in_check_range("cuBLAS, matrix B", device, b,
                         span(bt ? n : k, bt ? k : n, ldb, stride_b, batch, type_b));
    stand_in_check_range("cuBLAS, matrix C", device, c, span(m, n, ldc, stride_c, batch, type_c));

    const Product product = {
        m,
        n,
        k,
        batch,
        ldc,
        stride_a,
        stride_b,
        stride_c,
        .a = { a, type_a, at ? lda : 1, at ? 1 : lda },
        .b = { b, type_b, bt ? ldb : 1, bt ? 1 : ldb },
        .alpha = *(const float *)alpha,
        .beta = *(const float *)beta,
        .c = c,
        .type_c = type_c,
        .tf32 = type_a == CUDA_R_32F && (compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                                         (compute == CUBLAS_COMPUTE_32F &&
                                          (handle->mode & 15) == CUBLAS_TF32_TENSOR_OP_MATH)),
        .workspace = handle->workspace,
    };
    stand_in_push(handle->stream, &(Work){ .name = "cuBLAS",
                                           .run = run_product,
                                           .arguments = &product,
                                           .bytes = sizeof product });
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                            int m, int n, int k, const void *alpha, const void *a,
                            cudaDataType type_a, int lda, const void *b, cudaDataType type_b,
                            int ldb, const void *beta, void *c, cudaDataType type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0, b,
                                      type_b, ldb, 0, beta, c, type_c, ldc, 0, 1, compute, algo);
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                           int m, int n, int k, const float *alpha, const float *a, int lda,
                           const float *b, int ldb, const float *beta, float *c, int ldc)
{
    return cublasGemmEx(handle, op_a, op_b, m, n, k, alpha, a, CUDA_R_32F, lda, b, CUDA_R_32F, ldb,
                        beta, c, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess || stand_in_capturing())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    (*handle)->device = stand_in_device();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    LOCKED;
    stand_in_finish_device(handle->device); // like cuBLAS
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

/* Resets the workspace, like cuBLAS. */
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    handle->workspace = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *memory, size_t bytes)
{
    LOCKED;
    stand_in_check_range("cuBLAS, workspace", handle->device, memory, bytes);
    handle->workspace = memory;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    handle->mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS           ? "success"
           : status == CUBLAS_STATUS_NOT_INITIALIZED ? "the library was not initialized"
           : status == CUBLAS_STATUS_INVALID_VALUE   ? "an invalid value was passed"
                                                     : "not supported";
}
