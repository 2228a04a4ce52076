/* The Mersenne Twister makes 624 words at once from the last 624, and hands them out one by one. */
#include "common/base/rng.h"

#include <math.h>

enum { N = 624, M = 397 };

void rng_seed(Rng *rng, uint64_t seed)
{
    rng->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < N; i++) {
        const uint32_t previous = rng->state[i - 1];
        rng->state[i] = 1812433253u * (previous ^ (previous >> 30)) + i;
    }
    rng->next = N; // nothing generated yet
}

/* Applies the recurrence: each word follows from its neighbour and the one 397 places on. */
static void rng_generate(Rng *rng)
{
    uint32_t *state = rng->state;
    for (int i = 0; i < N; i++) {
        const uint32_t y = (state[i] & 0x80000000u) | (state[(i + 1) % N] & 0x7fffffffu);
        state[i] = state[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    rng->next = 0;
}

uint32_t rng_next(Rng *rng)
{
    if (rng->next == N)
        rng_generate(rng);

    uint32_t y = rng->state[rng->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

float rng_uniform(Rng *rng)
{
    return (float)(rng_next(rng) & 0xffffff) * 0x1p-24f;
}

float rng_uniform_between(Rng *rng, float a, float b)
{
    return fmaf(rng_uniform(rng), b - a, a);
}

void rng_permutation(Rng *rng, size_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = 0; i + 1 < n; i++) {
        const size_t j = i + rng_next(rng) % (n - i), swapped = order[i];
        order[i] = order[j];
        order[j] = swapped;
    }
}
