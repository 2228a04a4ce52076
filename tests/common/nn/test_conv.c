/* The convolutions against the reference, on the model's shapes and on odd ones; on a CPU with 1, 2
 * and 3 threads, which must give the same bits. */
#include "tests/common/nn/kernels.h"

/* Transposes each filter of a weight from [lines][columns] to [columns][lines]. */
static float *transposed(ConvShape s, int lines, const float *weight)
{
    const int numel = conv_filter_numel(s), columns = numel / lines;
    const float *from = fetch_floats(weight, (size_t)s.out_channels * numel);
    float *to = keep((size_t)s.out_channels * numel, sizeof *to);
    for (int c = 0; c < s.out_channels; c++)
        for (int i = 0; i < numel; i++)
            to[c * numel + i % columns * lines + i / columns] = from[c * numel + i];
    return to_device(to, (size_t)s.out_channels * numel * sizeof *to);
}

/* Converts a convolution's weight from PyTorch's layout to the device's, and back. */
static float *conv_import(ConvShape s, const float *weight)
{
    return transposed(s, s.in_channels, weight);
}

static float *conv_export(ConvShape s, const float *array)
{
    return transposed(s, s.kernel * s.kernel, array);
}

typedef struct {
    ConvShape shape;
    int n;
} ConvCase;

/* The model's shapes; then odd channels and sizes, other kernels, more and fewer images than
 * chunks, one image, and one output position. */
static const ConvCase conv_cases[] = {
    { { 1, 28, 32, 3 }, 3 }, { { 32, 26, 64, 3 }, 2 }, { { 16, 9, 48, 3 }, 5 },
    { { 3, 7, 5, 2 }, 1 },   { { 5, 9, 7, 3 }, 19 },   { { 2, 6, 33, 5 }, 4 },
    { { 17, 8, 37, 3 }, 5 }, { { 1, 5, 1, 1 }, 2 },    { { 40, 4, 50, 4 }, 3 },
    { { 1, 4, 3, 3 }, 33 },
};
enum { NUM_CONV_CASES = sizeof conv_cases / sizeof conv_cases[0] };

static void check_conv(ConvShape s, int n, bool pooled)
{
    const int size = conv_out_size(s), out_size = pooled ? size / 2 : size;
    const size_t x_numel = (size_t)n * s.in_channels * s.in_size * s.in_size;
    const size_t y_numel = (size_t)n * s.out_channels * out_size * out_size;
    const size_t weight_numel = (size_t)s.out_channels * conv_filter_numel(s);
    const float *x = random_floats(x_numel), *weight = random_floats(weight_numel);
    const float *bias = random_floats(s.out_channels);

    double *full = keep((size_t)n * s.out_channels * size * size, sizeof *full);
    double *expected = full;
    reference_conv(s, n, channels_first(n, s.in_channels, s.in_size * s.in_size, x),
                   as_double(weight, weight_numel), as_double(bias, s.out_channels), full);
    if (pooled) {
        expected = keep(y_numel, sizeof *expected);
        reference_pool(n * s.out_channels, size, full, expected, keep(y_numel, 1));
    }
    for (size_t i = 0; i < y_numel; i++)
        expected[i] = fmax(expected[i], 0);

    float *first = NULL;
    uint8_t *first_argmax = NULL;
    for (int i = 0; i < num_devices; i++) {
        float *y = zeros(y_numel);
        uint8_t *argmax = keep_on_device(y_numel, 1);
        if (devices[i].ops->conv_reserve != NULL)
            devices[i].ops->conv_reserve(&devices[i], s);
        devices[i].ops->conv_relu(&devices[i], s, n, x, conv_import(s, weight), bias, y,
                                  pooled ? argmax : NULL);
        assert_close(channels_first(n, s.out_channels, out_size * out_size, y), expected, y_numel);

        // The corner that argmax names holds the output value.
        const float *came_out = fetch_floats(y, y_numel);
        const uint8_t *named = fetch(argmax, y_numel);
        for (int image = 0; pooled && image < n; image++)
            for (int unit = 0; unit < out_size * out_size; unit++)
                for (int c = 0; c < s.out_channels; c++) {
                    const size_t at = (image * out_size * out_size + unit) * s.out_channels + c;
                    const int corner = reference_corner(size, unit, named[at]);
                    const double value = full[(image * s.out_channels + c) * size * size + corner];
                    assert_true(fabs(fmax(value, 0) - came_out[at]) < 1e-4);
                }
        first = i % MAX_THREADS == 0 ? y : first;
        first_argmax = i % MAX_THREADS == 0 ? argmax : first_argmax;
        assert_same_bits(y, first, y_numel * sizeof *y);
        assert_same_bits(argmax, first_argmax, y_numel);
    }
}

static void test_conv_relu(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_CONV_CASES; i++)
        check_conv(conv_cases[i].shape, conv_cases[i].n, false);
}

static void test_conv_relu_pool(void **state)
{
    (void)state;
    for (int i = 0; i < NUM_CONV_CASES; i++)
        if (conv_out_size(conv_cases[i].shape) > 1) // otherwise nothing is left
            check_conv(conv_cases[i].shape, conv_cases[i].n, true);
}

/* Sums of integers are exact, and many of a 2 x 2 are equal: PyTorch takes the first. */
static void test_first_of_equals(void **state)
{
    (void)state;
    static const ConvCase cases[] = { { { 5, 9, 7, 3 }, 3 }, { { 2, 6, 33, 5 }, 4 } };
    for (size_t t = 0; t < sizeof cases / sizeof cases[0]; t++) {
        const ConvShape s = cases[t].shape;
        const int n = cases[t].n, size = conv_out_size(s), units = (size / 2) * (size / 2);
        const size_t numel[2] = { (size_t)n * s.in_channels * s.in_size * s.in_size,
                                  (size_t)s.out_channels * conv_filter_numel(s) };
        float *whole[2];
        for (int i = 0; i < 2; i++) {
            float *values = keep(numel[i], sizeof *values);
            for (size_t j = 0; j < numel[i]; j++)
                values[j] = (float)(rng_next(&rng) % 3) - 1;
            whole[i] = to_device(values, numel[i] * sizeof *values);
        }
        const float *x = whole[0], *weight = whole[1], *bias = zeros(s.out_channels);
        const size_t y_numel = (size_t)n * s.out_channels * units;
        double *full = keep((size_t)n * s.out_channels * size * size, sizeof *full);
        uint8_t *expected = keep(y_numel, 1), *argmax = keep_on_device(y_numel, 1);
        reference_conv(s, n, channels_first(n, s.in_channels, s.in_size * s.in_size, x),
                       as_double(weight, numel[1]), as_double(bias, s.out_channels), full);
        reference_pool(n * s.out_channels, size, full, keep(y_numel, sizeof(double)), expected);
        if (devices[0].ops->conv_reserve != NULL)
            devices[0].ops->conv_reserve(&devices[0], s);
        devices[0].ops->conv_relu(&devices[0], s, n, x, conv_import(s, weight), bias,
                                  zeros(y_numel), argmax);
        const uint8_t *named = fetch(argmax, y_numel);
        for (int i = 0; i < n * units; i++)
            for (int c = 0; c < s.out_channels; c++)
                assert_int_equal(named[i * s.out_channels + c],
                                 expected[(i / units * s.out_channels + c) * units + i % units]);
    }
}

/* Outputs, their gradients and argmax need not belong to the inputs: all are random. */
static void check_conv_grad(ConvShape s, int n, bool pooled, bool input)
{
    const int size = conv_out_size(s), out_size = pooled ? size / 2 : size;
    const int in_pixels = s.in_size * s.in_size, out_pixels = out_size * out_size;
    const size_t x_numel = (size_t)n * s.in_channels * in_pixels;
    const size_t y_numel = (size_t)n * s.out_channels * out_pixels;
    const size_t weight_numel = (size_t)s.out_channels * conv_filter_numel(s);
    const float scale = 4.0f / 3;
    const float *x = random_floats(x_numel), *y = random_floats(y_numel);
    const float *dy = random_floats(y_numel), *weight = random_floats(weight_numel);
    const float *old_dweight = random_floats(weight_numel);
    const float *old_dbias = random_floats(s.out_channels);
    uint8_t *argmax = keep(y_numel, 1);
    for (size_t i = 0; i < y_numel; i++)
        argmax[i] = rng_next(&rng) % 4;

    float *gate = fetch_floats(dy, y_numel), *corner = keep(y_numel, sizeof *corner);
    const float *came_out = fetch_floats(y, y_numel);
    for (size_t i = 0; i < y_numel; i++) {
        gate[i] = came_out[i] > 0 ? gate[i] * scale : 0;
        corner[i] = argmax[i];
    }
    gate = to_device(gate, y_numel * sizeof *gate);
    corner = to_device(corner, y_numel * sizeof *corner);
    argmax = to_device(argmax, y_numel);
    double *full = channels_first(n, s.out_channels, out_pixels, gate);
    if (pooled) {
        const double *corners = channels_first(n, s.out_channels, out_pixels, corner);
        uint8_t *which = keep(y_numel, 1);
        for (size_t i = 0; i < y_numel; i++)
            which[i] = (uint8_t)corners[i];
        double *unpooled = keep((size_t)n * s.out_channels * size * size, sizeof *unpooled);
        reference_pool_grad(n * s.out_channels, size, full, which, unpooled);
        full = unpooled;
    }
    double *dweight = as_double(old_dweight, weight_numel);
    double *dbias = as_double(old_dbias, s.out_channels), *dx = keep(x_numel, sizeof *dx);
    reference_conv_grad(s, n, channels_first(n, s.in_channels, in_pixels, x),
                        as_double(weight, weight_numel), full, dweight, dbias, dx);

    float *first[3] = { NULL };
    for (int i = 0; i < num_devices; i++) {
        Device *device = &devices[i];
        float *ours_dy = copy_of(dy, y_numel), *ours_dx = random_floats(x_numel);
        float *ours_dweight = conv_import(s, old_dweight);
        float *ours_dbias = copy_of(old_dbias, s.out_channels);
        if (device->ops->conv_reserve != NULL)
            device->ops->conv_reserve(device, s);
        device->ops->conv_grad(device, s, n, x, y, pooled ? argmax : NULL, conv_import(s, weight),
                               scale, ours_dy, ours_dweight, ours_dbias, input ? ours_dx : NULL);
        assert_floats_close(conv_export(s, ours_dweight), dweight, weight_numel);
        assert_floats_close(ours_dbias, dbias, s.out_channels);
        if (input)
            assert_close(channels_first(n, s.in_channels, in_pixels, ours_dx), dx, x_numel);
        if (i % MAX_THREADS == 0)
            memcpy(first, (float *[]){ ours_dweight, ours_dbias, ours_dx }, sizeof first);
        assert_same_bits(ours_dweight, first[0], weight_numel * sizeof(float));
        assert_same_bits(ours_dbias, first[1], s.out_channels * sizeof(float));
        if (input)
            assert_same_bits(ours_dx, first[2], x_numel * sizeof(float));
    }
}

static void test_conv_relu_grad(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * NUM_CONV_CASES; i++)
        check_conv_grad(conv_cases[i / 2].shape, conv_cases[i / 2].n, false, i % 2);
}

static void test_conv_relu_pool_grad(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * NUM_CONV_CASES; i++)
        if (conv_out_size(conv_cases[i / 2].shape) > 1)
            check_conv_grad(conv_cases[i / 2].shape, conv_cases[i / 2].n, true, i % 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_conv_relu, forget),
        cmocka_unit_test_teardown(test_conv_relu_pool, forget),
        cmocka_unit_test_teardown(test_first_of_equals, forget),
        cmocka_unit_test_teardown(test_conv_relu_grad, forget),
        cmocka_unit_test_teardown(test_conv_relu_pool_grad, forget),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
