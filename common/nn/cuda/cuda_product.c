/* Products of matrices, and the linear layers made of them: one function of cuBLAS in every
 * precision. float32 is full precision, unless --tf32 on lets tensor cores take operands of 19
 * bits; bf16 and fp16 run on tensor cores and accumulate in float32. cuBLAS is column-major: it
 * sees our row-major matrices as their transposes, so it is asked for C^T = B^T A^T.
 *
 * We provide its workspace: its own might be allocated while a step is captured. With one stream
 * per handle and no atomics, which are off by default, results are reproducible. */
#include "common/base/library.h"
#include "common/nn/cuda/cuda_state.h"

/* cuBLAS is opened with the first GPU. Its header maps most names to a "_v2" function. */
#define LIBRARY "libcublas.so." LIBRARY_TEXT(CUBLAS_VER_MAJOR)
#define NEEDED_BY "--device cuda"
#define BLAS(FUNCTION) \
    FUNCTION(create, cublasCreate_v2) \
    FUNCTION(destroy, cublasDestroy_v2) \
    FUNCTION(set_stream, cublasSetStream_v2) \
    FUNCTION(set_workspace, cublasSetWorkspace_v2) \
    FUNCTION(status_string, cublasGetStatusString) \
    FUNCTION(gemm, cublasGemmEx)
static struct Blas {
    BLAS(LIBRARY_POINTER)
} blas;

#define CUBLAS_CHECK(call) \
    do { \
        const cublasStatus_t status = (call); \
        CHECK(status == CUBLAS_STATUS_SUCCESS, "%s:%d: %s: %s", __FILE__, __LINE__, #call, \
              blas.status_string(status)); \
    } while (0)

enum { WORKSPACE_BYTES = 32 << 20 }; // NVIDIA's recommendation for Hopper, the largest

void cuda_product_init(Device *device)
{
    CudaState *state = cuda_state(device);
    CUDA_CHECK(cudaMalloc(&state->workspace, WORKSPACE_BYTES));
    blas = (struct Blas){ BLAS(LIBRARY_FIND) };
    CUBLAS_CHECK(blas.create(&state->blas));
    CUBLAS_CHECK(blas.set_stream(state->blas, state->stream));
    CUBLAS_CHECK(blas.set_workspace(state->blas, state->workspace, WORKSPACE_BYTES));
}

void cuda_product_free(Device *device)
{
    CudaState *state = cuda_state(device);
    CUBLAS_CHECK(blas.destroy(state->blas));
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
    CUBLAS_CHECK(blas.gemm(
        cuda_state(device)->blas, p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
        p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, p->columns, p->rows, p->depth, &one, p->b,
        type_of(p->amp), p->b_transposed ? p->depth : p->columns, p->a, type_of(p->amp),
        p->a_transposed ? p->rows : p->depth, &beta, p->c, type_of(p->c_amp), p->columns,
        rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/* ---- linear layers: y = x W^T + b, dW = dy^T x, dx = dy W ----
 *
 * With --amp the operands are rounded into scratch memory first; a layer with few outputs stays
 * float32: rounding would cost more than it gains. */

enum { FEW_OUTPUTS = 32 };

static Amp product_amp(const Device *device, int out)
{
    return out < FEW_OUTPUTS ? AMP_OFF : device->amp;
}

/* The three products have two operands each; the bias's gradient needs scratch beside one pair. */
void cuda_linear_reserve(Device *device, int max_batch, int in, int out)
{
    const size_t size = product_amp(device, out) == AMP_OFF ? 0 : amp_bytes(device->amp);
    const size_t x = cuda_scratch_piece(size * max_batch * in);
    const size_t y = cuda_scratch_piece(size * max_batch * out);
    const size_t weight = cuda_scratch_piece(size * in * out);
    cuda_scratch_reserve(device,
                         x + y + weight + cuda_scratch_piece(CUDA_SUM_PARTS * out * sizeof(float)));
}

const void *cuda_operand(Device *device, Amp amp, size_t *used, size_t count, const float *values)
{
    if (amp == AMP_OFF)
        return values;
    void *rounded = cuda_scratch(device, used, count * amp_bytes(amp));
    cuda_round(count, amp, values, rounded, cuda_state(device)->stream);
    return rounded;
}

void cuda_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                 const float *weight, const float *bias, float *y)
{
    const Amp amp = product_amp(device, out);
    size_t used = 0;
    const void *a = cuda_operand(device, amp, &used, (size_t)n * in, x);
    const void *b = cuda_operand(device, amp, &used, (size_t)out * in, weight);
    cuda_product(device, &(CudaProduct){ n, out, in, amp, a, b, .b_transposed = true, .c = y });
    cuda_add_bias(n, out, relu, bias, y, cuda_state(device)->stream);
}

void cuda_linear_grad_params(Device *device, int n, int in, int out, const float *x,
                             const float *dy, float *dweight, float *dbias)
{
    const Amp amp = product_amp(device, out);
    size_t used = 0;
    float *partial = cuda_scratch(device, &used, CUDA_SUM_PARTS * out * sizeof(float));
    cuda_sum_rows(n, out, NULL, 1, (float *)dy, partial, dbias, cuda_state(device)->stream);
    const void *a = cuda_operand(device, amp, &used, (size_t)n * out, dy);
    const void *b = cuda_operand(device, amp, &used, (size_t)n * in, x);
    cuda_product(device, &(CudaProduct){ out, in, n, amp, a, b, true, .c = dweight, .add = true });
}

void cuda_linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                            const float *weight, float *dx)
{
    const Amp amp = product_amp(device, out);
    size_t used = 0;
    const void *a = cuda_operand(device, amp, &used, (size_t)n * out, dy);
    const void *b = cuda_operand(device, amp, &used, (size_t)out * in, weight);
    cuda_product(device, &(CudaProduct){ n, in, out, amp, a, b, .c = dx });
}
