/*
 * Dropout: the same masks as the CPU's, bit for bit (device.h). One call of Philox draws for 16
 * units, four per word; four threads make the same call and use one word each, which is faster than
 * one thread with 16 units, since a warp's accesses are closer together.
 */
#include <cuda_runtime.h>

#include "common/nn/cuda/cuda_kernels.h"
#include "common/nn/cuda/cuda_launch.h"
#include "common/nn/cuda/cuda_types.h"
#include "common/nn/philox.h"

enum { BLOCK = 256, UNITS = 4, WORDS = 4 };

static __global__ void dropout(int n, int features, CudaDropout key, const int32_t *step_offset,
                               float *y)
{
    const size_t thread = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    const int groups = (features + UNITS - 1) / UNITS; // of a row
    const int row = (int)(thread / groups), group = (int)(thread % groups);
    if (row >= n)
        return;

    const uint32_t place = (uint32_t)(key.first_row + row * key.row_stride);
    const uint32_t counter[4] = { (uint32_t)(group / WORDS), place, (uint32_t)key.layer,
                                  key.step + (uint32_t)*step_offset };
    uint32_t random[WORDS];
    philox(counter, key.seed, random);
    // Selected by comparisons: a run-time index would put the array into local memory.
    const int which = group % WORDS;
    const uint32_t word = which == 0   ? random[0]
                          : which == 1 ? random[1]
                          : which == 2 ? random[2]
                                       : random[3];

    const uint32_t threshold = (uint32_t)(key.p * 256);
    const float scale = 1 / (1 - key.p);
    float *unit = y + (size_t)row * features + group * UNITS;
    if (features % UNITS == 0) { // aligned, in every row
        Pack<float, UNITS> units = *(const Pack<float, UNITS> *)unit;
        for (int i = 0; i < UNITS; i++)
            units.value[i] = (word >> 8 * i & 255) >= threshold ? units.value[i] * scale : 0;
        *(Pack<float, UNITS> *)unit = units;
        return;
    }
    for (int i = 0; i < UNITS && group * UNITS + i < features; i++)
        unit[i] = (word >> 8 * i & 255) >= threshold ? unit[i] * scale : 0;
}

extern "C" void cuda_dropout(int n, int features, CudaDropout key, const int32_t *step_offset,
                             float *y, cudaStream_t stream)
{
    const size_t count = (size_t)n * ((features + UNITS - 1) / UNITS);
    LAUNCH(dropout, cuda_blocks(count, BLOCK), BLOCK, stream, n, features, key, step_offset, y);
}
