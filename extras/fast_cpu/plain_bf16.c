/*
 * --device plain --amp bf16: the plain kernels, on copies of their operands that are rounded to
 * bf16. They multiply and add in float32, as the other devices add. The same operands are rounded
 * as in cpu_bf16_layers.c.
 */
#include "extras/fast_cpu/cpu_bf16.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/nn/plain.h"

typedef struct {
    CpuState cpu; // first, because the plain kernels take the state as this
    DeviceOps plain;
    struct {
        float *values;
        size_t numel; // the largest size requested
    } copy[2]; // copies of a kernel's two operands
} State;

/* Rounds these numbers into copy `which`. */
static const float *round_copy(Device *device, int which, size_t numel, const float *from)
{
    State *state = device->state;
    if (numel > state->copy[which].numel) {
        free(state->copy[which].values);
        state->copy[which].values = mem_calloc(numel, sizeof(float));
        state->copy[which].numel = numel;
    }
    float *to = state->copy[which].values;
    for (size_t i = 0; i < numel; i++) {
        const uint32_t bits = cpu_bf16_bits(from[i]) << 16; // the upper half of a float32
        memcpy(&to[i], &bits, sizeof bits);
    }
    return to;
}

static const DeviceOps *plain(const Device *device)
{
    return &((const State *)device->state)->plain;
}

static void conv_relu(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                      const float *bias, float *y, uint8_t *argmax)
{
    if (cpu_bf16_rounds_conv(shape, argmax)) {
        x = round_copy(device, 0, (size_t)n * shape.in_size * shape.in_size * shape.in_channels, x);
        weight =
            round_copy(device, 1, (size_t)conv_filter_numel(shape) * shape.out_channels, weight);
    }
    plain(device)->conv_relu(device, shape, n, x, weight, bias, y, argmax);
}

static void linear(Device *device, int n, int in, int out, bool relu, const float *x,
                   const float *weight, const float *bias, float *y)
{
    if (out >= CPU_BF16_OUTPUTS) {
        x = round_copy(device, 0, (size_t)n * in, x);
        weight = round_copy(device, 1, (size_t)out * in, weight);
    }
    plain(device)->linear(device, n, in, out, relu, x, weight, bias, y);
}

static void linear_grad_params(Device *device, int n, int in, int out, const float *x,
                               const float *dy, float *dweight, float *dbias)
{
    // The bias is no product: its gradient is the sum of dy as it is. So is that of inputs without
    // features.
    plain(device)->linear_grad_params(device, n, 0, out, x, dy, dweight, dbias);
    float unused[out];
    memset(unused, 0, sizeof unused);
    if (out >= CPU_BF16_OUTPUTS) {
        x = round_copy(device, 0, (size_t)n * in, x);
        dy = round_copy(device, 1, (size_t)n * out, dy);
    }
    plain(device)->linear_grad_params(device, n, in, out, x, dy, dweight, unused);
}

static void linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                              const float *weight, float *dx)
{
    if (out >= CPU_BF16_OUTPUTS) {
        dy = round_copy(device, 0, (size_t)n * out, dy);
        weight = round_copy(device, 1, (size_t)out * in, weight);
    }
    plain(device)->linear_grad_input(device, n, in, out, dy, weight, dx);
}

static void free_copies(Device *device)
{
    State *state = device->state;
    for (int i = 0; i < 2; i++)
        free(state->copy[i].values);
    state->plain.free(device);
}

void plain_bf16_init(Device *device)
{
    if (log_prints_for_job())
        log_info("--amp bf16: the plain device rounds to bf16 and multiplies in float32: slower "
                 "than without");
    CpuState *before = device->state;
    State *state = mem_calloc(1, sizeof *state);
    state->cpu = *before;
    state->plain = before->ops;
    free(before);
    device->state = state;
    DeviceOps *ops = &state->cpu.ops;
    device->ops = ops;
    ops->free = free_copies;
    ops->conv_relu = conv_relu;
    ops->linear = linear;
    ops->linear_grad_params = linear_grad_params;
    ops->linear_grad_input = linear_grad_input;
}
