/*
 * rng.h - PyTorch's CPU random numbers, and numbers that can be drawn out of order.
 *
 * Rng is the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998) as PyTorch seeds and uses it
 * (ATen/core/MT19937RNGEngine.h), so that the same seed gives the same weights, data and order.
 * Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) is a function of a
 * counter: the n-th number costs the same whichever came before, on any rank and any thread.
 */
#ifndef COMMON_BASE_RNG_H
#define COMMON_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t state[624];
    int next; // index of the next word of state to hand out
} Rng;

/* As torch.manual_seed: only the low 32 bits of the seed count. */
void rng_seed(Rng *rng, uint64_t seed);

uint32_t rng_next(Rng *rng);

/* A float in [0, 1) with 24 random bits, as torch.rand. */
float rng_uniform(Rng *rng);

/* A float in [a, b), as tensor.uniform_(a, b): fmaf(u, b - a, a). */
float rng_uniform_between(Rng *rng, float a, float b);

/* 0 .. n-1 in random order, as torch.randperm(n). */
void rng_permutation(Rng *rng, size_t *order, size_t n);

/* Philox4x32-10: 128 random bits that depend on counter and key, and on nothing else. Inline, so
 * that a loop over counters becomes vectors. */
static inline void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t random[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u; // the golden ratio
        k1 += 0xBB67AE85u; // the square root of 3, less 1
    }
    random[0] = c0;
    random[1] = c1;
    random[2] = c2;
    random[3] = c3;
}

#endif
