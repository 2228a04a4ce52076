/* rng.h - PyTorch's CPU random numbers: the Mersenne Twister MT19937 (Matsumoto and Nishimura,
 * 1998) as PyTorch seeds and uses it (ATen/core/MT19937RNGEngine.h), so that the same seed gives
 * the same weights, data and order. */
#ifndef COMMON_BASE_RNG_H
#define COMMON_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t state[624];
    int next; // index of the next word of state to hand out
} Rng;

/* Seeds as torch.manual_seed does: only the low 32 bits of the seed are used. */
void rng_seed(Rng *rng, uint64_t seed);

uint32_t rng_next(Rng *rng);

/* Returns a float in [0, 1) with 24 random bits, as torch.rand does. */
float rng_uniform(Rng *rng);

/* Returns a float in [a, b), as tensor.uniform_(a, b) does: fmaf(u, b - a, a). */
float rng_uniform_between(Rng *rng, float a, float b);

/* Writes 0 .. n-1 to order in random order, as torch.randperm(n) does for n below 2^32 / 20; above
 * that PyTorch uses another algorithm. */
void rng_permutation(Rng *rng, size_t *order, size_t n);

#endif
