/* Random numbers, compared with both generators' published vectors and with PyTorch's (golden). */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/base/rng.h"
#include "common/nn/device.h"
#include "tests/helpers/unit.h"

enum { ROWS = 2048, COLUMNS = 20 };

/* From its authors' mt19937ar.c with init_genrand(5489); the C++ standard requires this 10,000th
 * value of std::mt19937. */
static void test_mersenne_twister(void **state)
{
    (void)state;
    const uint32_t first[] = { 3499211612u, 581869302u, 3890346734u, 3586334585u, 545404204u };
    Rng rng;
    rng_seed(&rng, 5489);
    uint32_t value = 0;
    for (int i = 0; i < 10000; i++) {
        value = rng_next(&rng);
        if (i < 5)
            assert_int_equal(value, first[i]);
    }
    assert_int_equal(value, 4123659995u);
}

static void test_seed_has_32_bits(void **state)
{
    (void)state;
    Rng low, high;
    rng_seed(&low, 7);
    rng_seed(&high, (UINT64_C(5) << 32) + 7);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(rng_next(&low), rng_next(&high));
}

/* From Random123's kat_vectors, philox4x32 with 10 rounds. */
static void test_philox(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], random[4];
    } known[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t random[4] = { 0 };
        philox(known[i].counter, known[i].key, random);
        assert_memory_equal(random, known[i].random, sizeof random);
    }
}

static void test_uniform_range(void **state)
{
    (void)state;
    Rng rng;
    rng_seed(&rng, 3);
    for (int i = 0; i < 100000; i++) {
        const float u = rng_uniform(&rng);
        assert_true(u >= 0 && u < 1 && u * 0x1p24f == floorf(u * 0x1p24f));
        const float between = rng_uniform_between(&rng, -2, 3);
        assert_true(between >= -2 && between < 3);
    }
}

/* Calls check for every line of a golden file; there must be num_lines of them. */
static void for_each_line(const char *path, void (*check)(json_t *line), int num_lines)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    json_t *line = NULL;
    while ((line = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        check(line);
        json_decref(line);
        num_lines--;
    }
    fclose(file);
    assert_int_equal(num_lines, 0);
}

static uint64_t integer(const json_t *line, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(line, key));
}

/* With one rank the sampler's order is torch.randperm(n) after manual_seed(seed + epoch). */
static void check_permutation(json_t *line)
{
    if (integer(line, "world") != 1 || integer(line, "shuffle") == 0)
        return;
    const size_t n = integer(line, "n");
    size_t *order = malloc(n * sizeof *order);
    Rng rng;
    rng_seed(&rng, integer(line, "seed") + integer(line, "epoch"));
    rng_permutation(&rng, order, n);

    const json_t *all = json_object_get(line, "all");
    const json_t *expected = all != NULL ? all : json_object_get(line, "first");
    for (size_t i = 0; i < json_array_size(expected); i++)
        assert_int_equal(order[i], json_integer_value(json_array_get(expected, i)));
    free(order);
}

static void test_permutation(void **state)
{
    (void)state;
    for_each_line("tests/golden/sampler.jsonl", check_permutation, 201);

    size_t order[1001];
    Rng rng;
    rng_seed(&rng, 0);
    static const size_t sizes[] = { 0, 1, 1000 };
    for (int i = 0; i < 3; i++) { // writes nothing behind them
        order[sizes[i]] = 12345;
        rng_permutation(&rng, order, sizes[i]);
        assert_int_equal(order[sizes[i]], 12345);
    }
    bool seen[1000] = { false };
    for (int i = 0; i < 1000; i++) {
        assert_true(order[i] < 1000 && !seen[order[i]]);
        seen[order[i]] = true;
    }

    // The last row draws no number, so torch.rand draws the thousandth next.
    Rng other;
    rng_seed(&rng, 5);
    rng_seed(&other, 5);
    rng_permutation(&rng, order, 1000);
    for (int i = 0; i < 999; i++)
        rng_next(&other);
    assert_int_equal(rng_next(&rng), rng_next(&other));
}

/* Draws a whole tensor in order and compares the values that the golden file has. */
static void check_draws(Rng *rng, const json_t *tensor, float bound, size_t numel)
{
    const json_t *first = json_object_get(tensor, "first");
    assert_true(json_array_size(first) > 0);
    for (size_t i = 0; i < numel; i++) {
        const float value = rng_uniform_between(rng, -bound, bound);
        if (i < json_array_size(first))
            assert_true(value == (float)json_real_value(json_array_get(first, i)));
    }
}

static void check_random_rows(Rng *rng, const json_t *dataset)
{
    const json_t *x = json_object_get(json_object_get(dataset, "x"), "first");
    const json_t *y = json_object_get(json_object_get(dataset, "y"), "first");
    for (size_t row = 0; row < ROWS; row++)
        for (size_t column = 0; column <= COLUMNS; column++) {
            const float value = rng_uniform(rng);
            if (row == 0 && column < json_array_size(x))
                assert_true(value == (float)json_real_value(json_array_get(x, column)));
            if (row < json_array_size(y) && column == COLUMNS)
                assert_true(value == (float)json_real_value(json_array_get(y, row)));
        }
}

/* Every parameter is uniform, weights within sqrt(3) * sqrt(2 / 6) / sqrt(fan_in), a bias within
 * 1 / sqrt(fan_in) of its weight. */
static void check_initial_state(json_t *line)
{
    Rng rng;
    rng_seed(&rng, integer(line, "seed"));
    if (json_object_get(line, "dataset") != NULL)
        check_random_rows(&rng, json_object_get(line, "dataset"));

    const char *name = NULL;
    json_t *tensor = NULL;
    double fan_in = 0;
    json_object_foreach(json_object_get(line, "params"), name, tensor)
    {
        const json_t *shape = json_object_get(tensor, "shape");
        size_t numel = 1;
        for (size_t i = 0; i < json_array_size(shape); i++)
            numel *= (size_t)json_integer_value(json_array_get(shape, i));
        const bool weight = json_array_size(shape) > 1;
        if (weight)
            fan_in = (double)(numel / (size_t)json_integer_value(json_array_get(shape, 0)));
        const double bound = weight ? sqrt(3) * (sqrt(2.0 / 6) / sqrt(fan_in)) : 1 / sqrt(fan_in);
        check_draws(&rng, tensor, (float)bound, numel);
    }
}

static void test_initial_state(void **state)
{
    (void)state;
    for_each_line("tests/golden/init.jsonl", check_initial_state, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mersenne_twister), cmocka_unit_test(test_seed_has_32_bits),
        cmocka_unit_test(test_philox),           cmocka_unit_test(test_uniform_range),
        cmocka_unit_test(test_permutation),      cmocka_unit_test(test_initial_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
