/*
 * peak - the walls of this machine: how many float32 multiply-adds its cores can do, how many bytes
 * they can move, and what the first means for a training step.
 *
 *     build/bench/peak
 *
 * FMA: sums that stay in registers, so many that each instruction's latency is hidden behind the
 * others. Triad: a = b + s c over arrays that no cache holds (STREAM; McCalpin 1995), three words
 * counted for each element. The best of some rounds, because other work only makes it slower.
 *
 * The dense step: two operations for each multiply-add of every layer, in the forward pass, for the
 * gradient of its weights, and for that of its inputs, which the first layer does not need; of
 * every number, zero or not, and by the definition of a convolution. Code that skips zeros, or
 * multiplies less (Winograd), needs fewer, and can be faster than this.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/words.h"

enum { SUMS = 16, LOOPS = 1 << 20, ROUNDS = 5, BATCH_SIZE = 64 };
enum { TRIAD_NUMEL = 1 << 24 }; // floats in each of three arrays: 192 MiB together

#ifdef __AVX512F__
enum { WIDTH = 16 };
#else
enum { WIDTH = 8 };
#endif
typedef float Vector __attribute__((vector_size(4 * WIDTH)));

static float kept; // result, so that the compiler does not remove the computation

static void multiply_add(void)
{
    Vector sum[SUMS];
    const Vector factor = { 0.5f }, term = { 1 };
    for (int i = 0; i < SUMS; i++)
        sum[i] = term * (float)i;
    for (int loop = 0; loop < LOOPS; loop++)
#pragma GCC unroll 16
        for (int i = 0; i < SUMS; i++)
            sum[i] = sum[i] * factor + term;
    for (int i = 1; i < SUMS; i++)
        sum[0] += sum[i];
#pragma omp atomic
    kept += sum[0][0];
}

static double fma_per_second(int threads)
{
    double best = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = seconds_now();
#pragma omp parallel num_threads(threads)
        multiply_add();
        best = fmin(best, seconds_now() - begin);
    }
    return threads * 2.0 * WIDTH * SUMS * LOOPS / best;
}

static double triad_per_second(int threads, float *a, const float *b, const float *c)
{
    double best = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        const double begin = seconds_now();
#pragma omp parallel for simd num_threads(threads) schedule(static)
        for (size_t i = 0; i < TRIAD_NUMEL; i++)
            a[i] = b[i] + 3 * c[i];
        best = fmin(best, seconds_now() - begin);
    }
    kept += a[TRIAD_NUMEL / 2];
    return 3.0 * sizeof *a * TRIAD_NUMEL / best;
}

/* Returns the operations of a dense training step for one image. */
static double dense_operations(void)
{
    const double conv1 = 26.0 * 26 * 32 * (1 * 3 * 3), conv2 = 24.0 * 24 * 64 * (32 * 3 * 3);
    const double fc1 = 9216.0 * 128, fc2 = 128.0 * 10;
    return 2 * (2 * conv1 + 3 * (conv2 + fc1 + fc2));
}

static void print(const char *what, int threads, const char *behind, double value, const char *unit)
{
    printf("{\"case\": \"%s, %d thread%s%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", what, threads,
           threads == 1 ? "" : "s", behind, value, unit);
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 0,
                "Usage: build/bench/peak\n\n"
                "How many operations and bytes a second this machine can do.\n");
    float *arrays = mem_calloc(3 * (size_t)TRIAD_NUMEL, sizeof *arrays);
    for (size_t i = 0; i < 3 * (size_t)TRIAD_NUMEL; i++)
        arrays[i] = (float)i; // touches each page before the clock runs
    fprintf(stderr, "a dense step of %d images: %.3f GFLOP\n", BATCH_SIZE,
            1e-9 * BATCH_SIZE * dense_operations());
    for (int threads = 1; threads <= 2; threads++) {
        const double fma = fma_per_second(threads);
        print("batch 64", threads, ", fp32", fma / dense_operations(), "samples/s");
        print("FMA", threads, "", 1e-9 * fma, "GFLOP/s");
        print("triad", threads, "",
              1e-9 * triad_per_second(threads, arrays, arrays + TRIAD_NUMEL,
                                      arrays + 2 * (size_t)TRIAD_NUMEL),
              "GB/s");
    }
    fprintf(stderr, "(%g)\n", (double)kept);
    free(arrays);
    return 0;
}
