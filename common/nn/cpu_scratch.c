/* Scratch memory of the CPU's kernels: one array, as long as the largest wish. */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/nn/cpu_kernels.h"

void cpu_reserve(Device *device, size_t numel)
{
    CpuState *state = device->state;
    if (numel <= state->numel)
        return;
    free(state->scratch);
    state->scratch = mem_calloc(numel, sizeof(float));
    state->numel = numel;
}

float *cpu_scratch(const Device *device, size_t numel)
{
    const CpuState *state = device->state;
    CHECK(numel <= state->numel, "a kernel wants %zu floats of scratch, %zu are reserved", numel,
          state->numel);
    return state->scratch;
}
