/*
 * --device cpu with fast kernels: the plain device's table, in which convolutions and linear layers
 * are replaced. The rest, memory, losses, dropout and optimizers, is fast enough as plain loops.
 */
#include "common/base/log.h"
#include "common/base/memory.h"
#include "extras/fast_cpu/cpu_bf16.h"
#include "extras/fast_cpu/cpu_kernels.h"

void device_cpu_init(Device *device)
{
    if (device->amp == AMP_BF16 && !cpu_bf16_has_instruction() && log_prints_for_job())
        log_info("--amp bf16: this program was built for processors without bf16 (AVX512_BF16), so "
                 "it rounds to bf16 and multiplies in float32: the same numbers, but slower");
    CpuState *state = cpu_init(device);
    state->ops.conv_relu = cpu_conv_relu;
    state->ops.conv_grad = cpu_conv_grad;
    state->ops.linear = cpu_linear;
    state->ops.linear_grad_params = cpu_linear_grad_params;
    state->ops.linear_grad_input = cpu_linear_grad_input;
    if (device->amp == AMP_BF16)
        cpu_bf16_ops(&state->ops);
}
