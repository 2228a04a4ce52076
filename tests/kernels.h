/* kernels.h - what the tests of the CPU's kernels share: devices with 1, 2 and 3 threads, memory,
 * random numbers and comparisons. */
#ifndef TESTS_KERNELS_H
#define TESTS_KERNELS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/memory.h"
#include "tests/reference.h"

enum { MAX_THREADS = 3 };

static Rng rng;
static Device devices[MAX_THREADS]; // devices[i] has i + 1 threads

/* Memory of a test, given back after it. */
static void *kept[4096];
static int num_kept;

static inline void *keep(size_t numel, size_t size)
{
    assert_true(num_kept < 4096);
    return kept[num_kept++] = mem_calloc(numel, size);
}

static inline int forget(void **state)
{
    (void)state;
    while (num_kept > 0)
        free(kept[--num_kept]);
    return 0;
}

static inline int setup(void **state)
{
    (void)state;
    rng_seed(&rng, 1);
    for (int i = 0; i < MAX_THREADS; i++) {
        const Args args = { .device = "cpu", .threads = i + 1 };
        device_init(&devices[i], &args, 0);
    }
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < MAX_THREADS; i++)
        device_free(&devices[i]);
    return 0;
}

static inline float *zeros(size_t numel)
{
    return keep(numel, sizeof(float));
}

static inline float *random_floats(size_t numel)
{
    float *values = zeros(numel);
    for (size_t i = 0; i < numel; i++)
        values[i] = rng_uniform_between(&rng, -1, 1);
    return values;
}

static inline double *as_double(const float *values, size_t numel)
{
    double *copy = keep(numel, sizeof *copy);
    for (size_t i = 0; i < numel; i++)
        copy[i] = values[i];
    return copy;
}

/* Images with their channels last to images with their channels first. */
static inline double *channels_first(int n, int channels, int pixels, const float *images)
{
    double *copy = keep((size_t)n * channels * pixels, sizeof *copy);
    for (int i = 0; i < n; i++)
        for (int p = 0; p < pixels; p++)
            for (int c = 0; c < channels; c++)
                copy[(i * channels + c) * pixels + p] = images[(i * pixels + p) * channels + c];
    return copy;
}

/* Relative to the largest of them. */
static inline void assert_close(const double *actual, const double *expected, size_t numel)
{
    double largest = 0, error = 0;
    for (size_t i = 0; i < numel; i++) {
        largest = fmax(largest, fabs(expected[i]));
        error = fmax(error, fabs(actual[i] - expected[i]));
        assert_false(isnan(actual[i]));
    }
    if (error > 1e-5 * largest)
        fail_msg("error %g of values up to %g", error, largest);
}

static inline void assert_floats_close(const float *actual, const double *expected, size_t numel)
{
    assert_close(as_double(actual, numel), expected, numel);
}

static inline float *copy_of(const float *values, size_t numel)
{
    return memcpy(zeros(numel), values, numel * sizeof(float));
}

static inline void assert_same_bits(const void *a, const void *b, size_t bytes)
{
    assert_int_equal(memcmp(a, b, bytes), 0);
}

#endif
