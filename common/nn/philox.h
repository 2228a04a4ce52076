/*
 * philox.h - random numbers that can be drawn in any order, by the host and by kernels alike.
 *
 * Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) is a function of a
 * counter: any rank and any thread can compute the n-th number without those before it.
 */
#ifndef COMMON_NN_PHILOX_H
#define COMMON_NN_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define PHILOX_INLINE static inline __host__ __device__
#else
#define PHILOX_INLINE static inline
#endif

/* Philox4x32-10: 128 random bits that depend on counter and key, and on nothing else. Inline, so
 * that a loop over counters vectorises. */
PHILOX_INLINE void philox(const uint32_t counter[4], const uint32_t key[2], uint32_t random[4])
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
