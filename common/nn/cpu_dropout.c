/*
 * Dropout without a generator's state: whether a unit is dropped is a function of seed, step,
 * layer, the row's place in the global batch and the unit's index, so neither threads nor ranks
 * matter. One call of Philox draws a byte for each of 16 units.
 */
#include "common/base/philox.h"
#include "common/nn/cpu_kernels.h"

enum { UNITS = 16 }; // per counter
enum { COUNTERS = 16 }; // drawn together, so that the loop vectorises

static void dropout_row(int features, const DropoutKey *key, int place, float *y)
{
    const uint32_t seed[2] = { (uint32_t)key->seed, (uint32_t)(key->seed >> 32) };
    const int threshold = (int)(key->p * 256);
    const float scale = 1 / (1 - key->p);
    for (int first = 0; first < features; first += UNITS * COUNTERS) {
        uint32_t random[COUNTERS][4];
        for (int i = 0; i < COUNTERS; i++) {
            const uint32_t counter[4] = { first / UNITS + i, place, key->layer,
                                          (uint32_t)key->step };
            philox(counter, seed, random[i]);
        }
        const uint8_t *byte = (const uint8_t *)random;
        const int count = cpu_min(UNITS * COUNTERS, features - first);
        for (int i = 0; i < count; i++)
            y[first + i] = byte[i] >= threshold ? y[first + i] * scale : 0;
    }
}

void cpu_dropout(Device *device, int n, int features, DropoutKey key, float *y)
{
    const int threads = cpu_threads(device, (double)n * features);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int row = 0; row < n; row++)
        dropout_row(features, &key, key.first_place + row * key.place_stride,
                    y + (ptrdiff_t)row * features);
}
