/*
 * The layers of short.h that are not convolutions. Products read and write 16 bits without a
 * separate rounding pass; only weights are rounded first. The float32 arrays are recognized by
 * their address: the batch's inputs, which the last gather wrote, and the gradient of the last
 * layer's outputs, which the loss wrote. Those outputs come from the only layer without relu.
 */
#include "extras/cudnn/short.h"

static void gather(Device *device, const Batch *batch, float *to, int32_t *labels, float *targets)
{
    short_layers(device)->inputs = to;
    short_layers(device)->inner->gather(device, batch, to, labels, targets);
}

static void nll_grad(Device *device, int n, int classes, const float *log_probs,
                     const int32_t *labels, float *dlogits)
{
    short_layers(device)->last_dy = dlogits;
    short_layers(device)->inner->nll_grad(device, n, classes, log_probs, labels, dlogits);
}

static void mse_grad(Device *device, int n, const float *y, const float *targets, float *dy)
{
    short_layers(device)->last_dy = dy;
    short_layers(device)->inner->mse_grad(device, n, y, targets, dy);
}

/* Reserves scratch for a linear layer: the weight, then the float32 operand to be rounded, or the
 * other way round; and column sums. */
static void linear_reserve(Device *device, int max_batch, int in, int out)
{
    const size_t rows = (size_t)max_batch, larger = (size_t)(in > out ? in : out);
    cuda_scratch_reserve(device, cuda_scratch_piece(2 * (size_t)in * out) +
                                     cuda_scratch_piece(2 * rows * larger) +
                                     cuda_scratch_piece(sizeof(float) * rows * out) +
                                     cuda_scratch_piece(CUDA_SUM_PARTS * out * sizeof(float)));
}

/* Returns an activation, or its gradient, as an operand: rounded if it is in float32. */
static const void *operand(Device *device, size_t *used, size_t count, const float *values)
{
    const ShortLayers *layers = short_layers(device);
    const bool wide = values == layers->inputs || values == layers->last_dy;
    return wide ? cuda_operand(device, device->amp, used, count, values) : values;
}

/* Computes the product in float32, which is rounded once, after bias and relu. */
static void linear(Device *device, int n, int in, int out, bool relu, const float *x,
                   const float *weight, const float *bias, float *y)
{
    const Amp amp = device->amp;
    const cudaStream_t stream = cuda_state(device)->stream;
    size_t used = 0;
    const void *a = operand(device, &used, (size_t)n * in, x);
    const void *b = cuda_operand(device, amp, &used, (size_t)out * in, weight);
    float *z = relu ? cuda_scratch(device, &used, (size_t)n * out * sizeof *z) : y;
    cuda_product(device, &(CudaProduct){ n, out, in, amp, a, b, .b_transposed = true, .c = z });
    if (relu)
        cuda_short_bias_relu(n, out, amp, z, bias, y, stream);
    else
        cuda_add_bias(n, out, false, bias, y, stream);
}

static void relu_grad(Device *device, size_t count, const float *y, float scale, float *dy)
{
    cuda_short_relu_grad(count, device->amp, y, scale, dy, cuda_state(device)->stream);
}

static void linear_grad_params(Device *device, int n, int in, int out, const float *x,
                               const float *dy, float *dweight, float *dbias)
{
    const Amp amp = device->amp;
    const cudaStream_t stream = cuda_state(device)->stream;
    size_t used = 0;
    float *partial = cuda_scratch(device, &used, CUDA_SUM_PARTS * out * sizeof(float));
    if (dy == short_layers(device)->last_dy)
        cuda_sum_rows(n, out, NULL, 1, (float *)dy, partial, dbias, stream);
    else
        cuda_short_sum_rows(n, out, amp, NULL, 1, (void *)dy, partial, dbias, stream);
    const void *a = operand(device, &used, (size_t)n * out, dy);
    const void *b = operand(device, &used, (size_t)n * in, x);
    cuda_product(device, &(CudaProduct){ out, in, n, amp, a, b, true, .c = dweight, .add = true });
}

static void linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                              const float *weight, float *dx)
{
    const Amp amp = device->amp;
    size_t used = 0;
    const void *a = operand(device, &used, (size_t)n * out, dy);
    const void *b = cuda_operand(device, amp, &used, (size_t)out * in, weight);
    cuda_product(device, &(CudaProduct){ n, in, out, amp, a, b, .c = dx, .c_amp = amp });
}

static void dropout(Device *device, int n, int features, DropoutKey key, float *y)
{
    cuda_short_dropout(n, features, device->amp, key, cuda_step_offset(device), y,
                       cuda_state(device)->stream);
}

void short_layers_init(ShortLayers *layers, const DeviceOps *inner, DeviceOps *ops)
{
    layers->inner = inner;
    ops->gather = gather;
    ops->nll_grad = nll_grad;
    ops->mse_grad = mse_grad;
    ops->linear_reserve = linear_reserve;
    ops->linear = linear;
    ops->relu_grad = relu_grad;
    ops->linear_grad_params = linear_grad_params;
    ops->linear_grad_input = linear_grad_input;
    ops->dropout = dropout;
}
