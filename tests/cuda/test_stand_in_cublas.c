/* The stand-in's cuBLAS against products in double: transposed or not, sub-matrices, batches, and
 * with exactly the requested precision, neither better nor worse. */
#include "tests/cuda/stand_in_case.h"

#include <cublas_v2.h>

#include "common/base/library.h"
#include "common/base/rng.h"

#define LIBRARY "libcublas.so." LIBRARY_TEXT(CUBLAS_VER_MAJOR)
#define NEEDED_BY "this test"
#define BLAS(FUNCTION) \
    FUNCTION(create, cublasCreate_v2) \
    FUNCTION(destroy, cublasDestroy_v2) \
    FUNCTION(set_stream, cublasSetStream_v2) \
    FUNCTION(status_string, cublasGetStatusString) \
    FUNCTION(sgemm, cublasSgemm_v2) \
    FUNCTION(gemm_batched, cublasGemmStridedBatchedEx)
static struct Blas {
    BLAS(LIBRARY_POINTER)
} blas;

enum { M = 19, NN = 13, K = 70, LD = 75, BATCH = 3, STRIDE = LD * 80 };

static float host_a[BATCH * STRIDE], host_b[BATCH * STRIDE], host_c[BATCH * STRIDE];
static float result[BATCH * STRIDE];

static float *random_on_device(float *host, uint64_t seed)
{
    Rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < BATCH * STRIDE; i++)
        host[i] = rng_uniform_between(&rng, -1, 1);
    float *memory = device_floats(BATCH * STRIDE);
    CUDA_CHECK(cudaMemcpy(memory, host, sizeof host_a, cudaMemcpyHostToDevice));
    return memory;
}

/* Returns cuBLAS's largest error, and checks that it wrote only C. */
static double largest_error(bool at, bool bt, int batch, float alpha, float beta)
{
    double largest = 0;
    for (int i = 0; i < BATCH * STRIDE; i++) {
        const int part = i / STRIDE, row = i % STRIDE % LD, column = i % STRIDE / LD;
        if (part >= batch || row >= M || column >= NN) {
            CHECK(result[i] == host_c[i], "number %d was written", i);
            continue;
        }
        double sum = 0;
        for (int k = 0; k < K; k++)
            sum += (double)host_a[part * STRIDE + (at ? k + row * LD : row + k * LD)] *
                   host_b[part * STRIDE + (bt ? column + k * LD : k + column * LD)];
        largest = fmax(largest, fabs(alpha * sum + beta * (double)host_c[i] - result[i]));
    }
    return largest;
}

static double error_of(bool at, bool bt, int batch, float alpha, float beta,
                       cublasComputeType_t compute)
{
    cublasHandle_t handle;
    CHECK(blas.create(&handle) == CUBLAS_STATUS_SUCCESS, "create");
    float *a = random_on_device(host_a, 1), *b = random_on_device(host_b, 2);
    float *c = random_on_device(host_c, 3);
    const cudaStream_t stream = new_stream();
    blas.set_stream(handle, stream);
    const cublasStatus_t status =
        blas.gemm_batched(handle, at ? CUBLAS_OP_T : CUBLAS_OP_N, bt ? CUBLAS_OP_T : CUBLAS_OP_N, M,
                          NN, K, &alpha, a, CUDA_R_32F, LD, STRIDE, b, CUDA_R_32F, LD, STRIDE,
                          &beta, c, CUDA_R_32F, LD, STRIDE, batch, compute, CUBLAS_GEMM_DEFAULT);
    CHECK(status == CUBLAS_STATUS_SUCCESS, "%s", blas.status_string(status));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    fetch(result, c, BATCH * STRIDE);
    CHECK(blas.destroy(handle) == CUBLAS_STATUS_SUCCESS, "destroy");
    return largest_error(at, bt, batch, alpha, beta);
}

static void products(const void *context)
{
    (void)context;
    for (int i = 0; i < 8; i++) {
        const double error =
            error_of(i & 1, i & 2, i & 4 ? BATCH : 1, 1.5f, i & 1, CUBLAS_COMPUTE_32F_PEDANTIC);
        CHECK(error < 2e-5, "operands %d: off by %g", i, error);
    }
    const double tf32 = error_of(false, true, 1, 1, 0, CUBLAS_COMPUTE_32F_FAST_TF32);
    CHECK(tf32 > 1e-4 && tf32 < 2e-2, "tf32: off by %g", tf32);
}

static void test_products(void **state)
{
    (void)state;
    assert_right(products);
}

static void matrix_too_large(const void *context)
{
    (void)context;
    const float one = 1;
    cublasHandle_t handle;
    blas.create(&handle);
    float *a = device_floats(M * K), *b = device_floats(K * NN), *c = device_floats(M * NN - 1);
    blas.sgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, NN, K, &one, a, M, b, K, &one, c, M);
}

static void leading_dimension(const void *context)
{
    (void)context;
    const float one = 1;
    cublasHandle_t handle;
    blas.create(&handle);
    float *a = device_floats(M * K);
    CHECK(blas.sgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, M, NN, K, &one, a, M, a, K, &one, a, M) ==
              CUBLAS_STATUS_INVALID_VALUE,
          "a transposed matrix of %d rows needs a leading dimension of %d", M, K);
}

static void test_misuse(void **state)
{
    (void)state;
    assert_aborts(matrix_too_large, "cuBLAS, matrix C: bytes 0 to 988 of an array of 984");
    assert_right(leading_dimension);
}

int main(void)
{
    blas = (struct Blas){ BLAS(LIBRARY_FIND) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_misuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
