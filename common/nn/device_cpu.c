/*
 * The CPU as a device: its table of kernels, memory, and the translation between PyTorch's layouts
 * and its own. All work is done when a call returns, so nothing ever waits.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/nn/cpu_bf16.h"
#include "common/nn/cpu_kernels.h"

void device_cpu_init(Device *device)
{
    CpuState *state = device->state = mem_calloc(1, sizeof *state);
    if (device->amp == AMP_OFF)
        return;
    if (device->amp == AMP_FP16)
        usage_error("--amp fp16 needs a GPU: use --amp bf16, or --device cuda");
    if (!cpu_bf16_available())
        usage_error("--amp bf16: this program was made for processors without bf16 (AVX512_BF16); "
                    "leave it out, or use --device cuda");
    state->ops = device_cpu_ops;
    cpu_bf16_ops(&state->ops);
    device->ops = &state->ops;
}

static void cpu_free(Device *device)
{
    CpuState *state = device->state;
    free(state->scratch);
    free(state);
}

static void *cpu_malloc(Device *device, size_t bytes)
{
    (void)device;
    return mem_calloc(bytes, 1);
}

static void cpu_release(Device *device, void *memory)
{
    (void)device;
    free(memory);
}

static void cpu_copy(Device *device, void *to, const void *from, size_t bytes, CopyKind kind)
{
    (void)device, (void)kind;
    memcpy(to, from, bytes);
}

static void cpu_synchronize(Device *device)
{
    (void)device;
}

static void cpu_conv_reserve(Device *device, ConvShape shape)
{
    cpu_reserve(device, cpu_conv_scratch(shape, device->threads));
    cpu_reserve(device, cpu_conv_grad_scratch(shape));
}

/* Transposes each of `count` matrices: [rows][columns] to [columns][rows]. They are read across and
 * written along, since a store across takes a cache line from memory and back for each number. */
static void transpose(size_t count, size_t rows, size_t columns, const float *restrict from,
                      float *restrict to)
{
    const size_t numel = rows * columns;
    for (size_t i = 0; i < count; i++, from += numel, to += numel)
        for (size_t column = 0; column < columns; column++)
            for (size_t row = 0; row < rows; row++)
                to[column * rows + row] = from[row * columns + column];
}

static size_t row_pixels(const Tensor *tensor, int channels)
{
    return tensor->numel / tensor->shape[0] / (size_t)channels;
}

/* Channels come first in PyTorch, last here. */
static void cpu_import(Device *device, const Tensor *tensor, int channels, const float *host,
                       float *array)
{
    (void)device;
    transpose(tensor->shape[0], channels, row_pixels(tensor, channels), host, array);
}

static void cpu_export(Device *device, const Tensor *tensor, int channels, const float *array,
                       float *host)
{
    (void)device;
    transpose(tensor->shape[0], row_pixels(tensor, channels), channels, array, host);
}

static void cpu_gather(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                       float *targets)
{
    const Dataset *dataset = batch->dataset;
    const size_t features = dataset->features;
    const int threads = cpu_threads(device, (double)batch->size * features);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < batch->size; i++) {
        const size_t row = batch->index[i];
        float *input = inputs + i * features;
        if (dataset->floats != NULL)
            memcpy(input, dataset->floats + row * features, features * sizeof *input);
        else
            for (size_t j = 0; j < features; j++)
                input[j] = dataset->normalised[dataset->bytes[row * features + j]];
        if (dataset->labels != NULL)
            labels[i] = dataset->labels[row];
        else
            targets[i] = dataset->targets[row];
    }
}

static void cpu_zero(Device *device, float *array, size_t count)
{
#pragma omp parallel for simd num_threads(cpu_threads(device, count)) schedule(static)
    for (size_t i = 0; i < count; i++)
        array[i] = 0;
}

const DeviceOps device_cpu_ops = {
    .malloc = cpu_malloc,
    .release = cpu_release,
    .copy = cpu_copy,
    .synchronize = cpu_synchronize,
    .free = cpu_free,
    .import = cpu_import,
    .export = cpu_export,
    .gather = cpu_gather,
    .conv_reserve = cpu_conv_reserve,
    .conv_relu = cpu_conv_relu,
    .conv_relu_pool = cpu_conv_relu_pool,
    .conv_grad = cpu_conv_grad,
    .linear = cpu_linear,
    .relu_grad = cpu_relu_grad,
    .linear_grad_params = cpu_linear_grad_params,
    .linear_grad_input = cpu_linear_grad_input,
    .dropout = cpu_dropout,
    .nll = cpu_nll,
    .nll_grad = cpu_nll_grad,
    .mse = cpu_mse,
    .mse_grad = cpu_mse_grad,
    .zero = cpu_zero,
    .sgd = cpu_sgd,
    .adam = cpu_adam,
    .adadelta = cpu_adadelta,
};
