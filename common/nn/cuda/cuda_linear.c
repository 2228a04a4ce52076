/*
 * The linear layer: y = x W^T + b, dW = dy^T x, dx = dy W, each one product. With --amp its
 * operands are rounded into scratch memory first; a layer with few outputs stays float32: rounding
 * would cost more than it gains.
 */
#include "common/nn/cuda/cuda_state.h"

enum { FEW_OUTPUTS = 32 };

static Amp product_amp(const Device *device, int out)
{
    return out < FEW_OUTPUTS ? AMP_OFF : device->amp;
}

/* The three products have two operands each; the bias's gradient needs scratch beside one pair. */
void cuda_linear_reserve(Device *device, int max_batch, int in, int out)
{
    const Amp amp = product_amp(device, out);
    const size_t size = amp == AMP_OFF ? 0 : amp_bytes(amp);
    const size_t x = cuda_scratch_piece(size * max_batch * in);
    const size_t y = cuda_scratch_piece(size * max_batch * out);
    const size_t weight = cuda_scratch_piece(size * in * out);
    cuda_scratch_reserve(device,
                         x + y + weight + cuda_scratch_piece(CUDA_SUM_PARTS * out * sizeof(float)));
}

/* The operand in the products' type. */
static const void *operand(Device *device, Amp amp, size_t *used, size_t count, const float *values)
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
    cuda_product(device, &(CudaProduct){ .rows = n,
                                         .columns = out,
                                         .depth = in,
                                         .amp = amp,
                                         .a = operand(device, amp, &used, (size_t)n * in, x),
                                         .b = operand(device, amp, &used, (size_t)out * in, weight),
                                         .b_transposed = true,
                                         .c = y });
    cuda_add_bias(n, out, relu, bias, y, cuda_state(device)->stream);
}

void cuda_linear_grad_params(Device *device, int n, int in, int out, const float *x,
                             const float *dy, float *dweight, float *dbias)
{
    const Amp amp = product_amp(device, out);
    size_t used = 0;
    float *partial = cuda_scratch(device, &used, CUDA_SUM_PARTS * out * sizeof(float));
    cuda_sum_rows(n, out, NULL, 1, (float *)dy, partial, dbias, cuda_state(device)->stream);
    cuda_product(device, &(CudaProduct){ .rows = out,
                                         .columns = in,
                                         .depth = n,
                                         .amp = amp,
                                         .a = operand(device, amp, &used, (size_t)n * out, dy),
                                         .a_transposed = true,
                                         .b = operand(device, amp, &used, (size_t)n * in, x),
                                         .c = dweight,
                                         .add = true });
}

void cuda_linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                            const float *weight, float *dx)
{
    const Amp amp = product_amp(device, out);
    size_t used = 0;
    cuda_product(device, &(CudaProduct){ .rows = n,
                                         .columns = in,
                                         .depth = out,
                                         .amp = amp,
                                         .a = operand(device, amp, &used, (size_t)n * out, dy),
                                         .b = operand(device, amp, &used, (size_t)out * in, weight),
                                         .c = dx });
}
