/* Every kernel of the CPU against the reference, on shapes that fill its tiles and on shapes that
 * do not; and with 1, 2 and 3 threads, which must give the same bits. */
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

static void *keep(size_t numel, size_t size)
{
    assert_true(num_kept < 4096);
    return kept[num_kept++] = mem_calloc(numel, size);
}

static int forget(void **state)
{
    (void)state;
    while (num_kept > 0)
        free(kept[--num_kept]);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    rng_seed(&rng, 1);
    for (int i = 0; i < MAX_THREADS; i++) {
        const Args args = { .device = "cpu", .threads = i + 1 };
        device_init(&devices[i], &args, 0);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < MAX_THREADS; i++)
        device_free(&devices[i]);
    return 0;
}

static float *zeros(size_t numel)
{
    return keep(numel, sizeof(float));
}

static float *random_floats(size_t numel)
{
    float *values = zeros(numel);
    for (size_t i = 0; i < numel; i++)
        values[i] = rng_uniform_between(&rng, -1, 1);
    return values;
}

static double *as_double(const float *values, size_t numel)
{
    double *copy = keep(numel, sizeof *copy);
    for (size_t i = 0; i < numel; i++)
        copy[i] = values[i];
    return copy;
}

/* Images with their channels last to images with their channels first. */
static double *channels_first(int n, int channels, int pixels, const float *images)
{
    double *copy = keep((size_t)n * channels * pixels, sizeof *copy);
    for (int i = 0; i < n; i++)
        for (int p = 0; p < pixels; p++)
            for (int c = 0; c < channels; c++)
                copy[(i * channels + c) * pixels + p] = images[(i * pixels + p) * channels + c];
    return copy;
}

/* Relative to the largest of them. */
static void assert_close(const double *actual, const double *expected, size_t numel)
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

static void assert_floats_close(const float *actual, const double *expected, size_t numel)
{
    assert_close(as_double(actual, numel), expected, numel);
}

static float *copy_of(const float *values, size_t numel)
{
    return memcpy(zeros(numel), values, numel * sizeof(float));
}

static void assert_same_bits(const void *a, const void *b, size_t bytes)
{
    assert_int_equal(memcmp(a, b, bytes), 0);
}

/* A convolution's weight as the device has it, from PyTorch's layout, and back. */
static float *conv_import(ConvShape s, const float *weight)
{
    const Tensor tensor = { .shape = { s.out_channels, s.in_channels, s.kernel, s.kernel },
                            .ndim = 4,
                            .numel = (size_t)s.out_channels * conv_filter_numel(s) };
    float *array = zeros(tensor.numel);
    device_cpu_ops.import(&devices[0], &tensor, (WeightLayout){ .kind = WEIGHT_CONV }, weight,
                          array);
    return array;
}

static float *conv_export(ConvShape s, const float *array)
{
    const Tensor tensor = { .shape = { s.out_channels, s.in_channels, s.kernel, s.kernel },
                            .ndim = 4,
                            .numel = (size_t)s.out_channels * conv_filter_numel(s) };
    float *weight = zeros(tensor.numel);
    device_cpu_ops.export(&devices[0], &tensor, (WeightLayout){ .kind = WEIGHT_CONV }, array,
                          weight);
    return weight;
}

typedef struct {
    ConvShape shape;
    int n;
} ConvCase;

/* The model's; then channels and sizes that divide by nothing, other kernels, more and fewer images
 * than chunks, one image, and one place. */
static const ConvCase conv_cases[] = {
    { { 1, 28, 32, 3 }, 3 }, { { 32, 26, 64, 3 }, 2 }, { { 3, 7, 5, 2 }, 1 },
    { { 5, 9, 7, 3 }, 19 },  { { 2, 6, 33, 5 }, 4 },   { { 17, 8, 37, 3 }, 5 },
    { { 1, 5, 1, 1 }, 2 },   { { 40, 4, 50, 4 }, 3 },  { { 1, 4, 3, 3 }, 33 },
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
    for (int i = 0; i < MAX_THREADS; i++) {
        float *y = zeros(y_numel);
        uint8_t *argmax = keep(y_numel, 1);
        devices[i].ops->conv_reserve(&devices[i], s);
        if (pooled)
            devices[i].ops->conv_relu_pool(&devices[i], s, n, x, conv_import(s, weight), bias, y,
                                           argmax);
        else
            devices[i].ops->conv_relu(&devices[i], s, n, x, conv_import(s, weight), bias, y);
        assert_close(channels_first(n, s.out_channels, out_size * out_size, y), expected, y_numel);

        // The corner that argmax names holds the value that came out.
        for (int image = 0; pooled && image < n; image++)
            for (int unit = 0; unit < out_size * out_size; unit++)
                for (int c = 0; c < s.out_channels; c++) {
                    const size_t at = (image * out_size * out_size + unit) * s.out_channels + c;
                    const int corner = reference_corner(size, unit, argmax[at]);
                    const double value = full[(image * s.out_channels + c) * size * size + corner];
                    assert_true(fabs(fmax(value, 0) - y[at]) < 1e-4);
                }
        first = i == 0 ? y : first;
        first_argmax = i == 0 ? argmax : first_argmax;
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
        check_conv(conv_cases[i].shape, conv_cases[i].n, true);
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

    float *gate = zeros(y_numel), *corner = zeros(y_numel);
    for (size_t i = 0; i < y_numel; i++) {
        gate[i] = y[i] > 0 ? dy[i] * scale : 0;
        corner[i] = argmax[i];
    }
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
    for (int i = 0; i < MAX_THREADS; i++) {
        Device *device = &devices[i];
        float *ours_dy = copy_of(dy, y_numel), *ours_dx = random_floats(x_numel);
        float *ours_dweight = conv_import(s, old_dweight);
        float *ours_dbias = copy_of(old_dbias, s.out_channels);
        device->ops->conv_reserve(device, s);
        if (pooled)
            device->ops->conv_relu_pool_grad(device, s, n, x, y, argmax, conv_import(s, weight),
                                             scale, ours_dy, ours_dweight, ours_dbias,
                                             input ? ours_dx : NULL);
        else
            device->ops->conv_relu_grad(device, s, n, x, y, conv_import(s, weight), scale, ours_dy,
                                        ours_dweight, ours_dbias, input ? ours_dx : NULL);
        assert_floats_close(conv_export(s, ours_dweight), dweight, weight_numel);
        assert_floats_close(ours_dbias, dbias, s.out_channels);
        if (input)
            assert_close(channels_first(n, s.in_channels, in_pixels, ours_dx), dx, x_numel);
        if (i == 0)
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
        check_conv_grad(conv_cases[i / 2].shape, conv_cases[i / 2].n, true, i % 2);
}

static const struct {
    int n, in, out;
} linear_cases[] = { { 5, 9216, 128 }, { 64, 128, 10 }, { 32, 20, 1 },
                     { 1, 1, 1 },      { 7, 1037, 13 }, { 131, 130, 137 } };

static void test_linear(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof linear_cases / sizeof linear_cases[0]; t++) {
        const int n = linear_cases[t].n, in = linear_cases[t].in, out = linear_cases[t].out;
        const float *x = random_floats(n * in), *weight = random_floats(out * in);
        const float *bias = random_floats(out), *dy = random_floats(n * out);
        const float *old_dweight = random_floats(out * in), *old_dbias = random_floats(out);
        double *y = keep(n * out, sizeof *y), *dx = keep(n * in, sizeof *dx);
        double *dweight = as_double(old_dweight, out * in), *dbias = as_double(old_dbias, out);
        reference_linear(n, in, out, as_double(x, n * in), as_double(weight, out * in),
                         as_double(bias, out), y);
        reference_linear_grad(n, in, out, as_double(x, n * in), as_double(weight, out * in),
                              as_double(dy, n * out), dweight, dbias, dx);

        float *first[4] = { NULL };
        for (int i = 0; i < MAX_THREADS; i++) {
            Device *device = &devices[i];
            float *ours[4] = { zeros(n * out), copy_of(old_dweight, out * in),
                               copy_of(old_dbias, out), random_floats(n * in) };
            device->ops->linear(device, n, in, out, false, x, weight, bias, ours[0]);
            device->ops->linear_grad_params(device, n, in, out, x, dy, ours[1], ours[2]);
            device->ops->linear_grad_input(device, n, in, out, dy, weight, ours[3]);
            assert_floats_close(ours[0], y, n * out);
            assert_floats_close(ours[1], dweight, out * in);
            assert_floats_close(ours[2], dbias, out);
            assert_floats_close(ours[3], dx, n * in);
            if (i == 0)
                memcpy(first, ours, sizeof first);
            const int numel[4] = { n * out, out * in, out, n * in };
            for (int j = 0; j < 4; j++)
                assert_same_bits(ours[j], first[j], numel[j] * sizeof(float));

            float *with_relu = zeros(n * out);
            device->ops->linear(device, n, in, out, true, x, weight, bias, with_relu);
            for (int j = 0; j < n * out; j++)
                assert_true(with_relu[j] == (ours[0][j] > 0 ? ours[0][j] : 0));
        }
    }
}

static void test_relu_grad(void **state)
{
    (void)state;
    const float y[] = { -1, 0, 2, 3 };
    float dy[] = { 5, 6, 7, -8 };
    device_cpu_ops.relu_grad(&devices[1], 4, y, 2, dy);
    assert_memory_equal(dy, ((float[]){ 0, 0, 14, -16 }), sizeof dy);
}

static void test_dropout(void **state)
{
    (void)state;
    const DropoutKey key = { .seed = 0x123456789abcdef0,
                             .step = 7,
                             .layer = 2,
                             .first_place = 3,
                             .place_stride = 5,
                             .p = 0.25f };
    enum { N = 9, FEATURES = 1003 };
    const float *x = random_floats(N * FEATURES);
    for (int i = 0; i < MAX_THREADS; i++) {
        float *y = copy_of(x, N * FEATURES);
        int kept_units = 0;
        devices[i].ops->dropout(&devices[i], N, FEATURES, key, y);
        for (int row = 0; row < N; row++)
            for (int unit = 0; unit < FEATURES; unit++) {
                const int at = row * FEATURES + unit;
                const bool keeps = reference_keeps(key, row, unit);
                assert_true(fabsf(y[at] - (keeps ? x[at] * 4 / 3 : 0)) <= 1e-6f);
                kept_units += keeps;
            }
        assert_in_range(kept_units, 0.73 * N * FEATURES, 0.77 * N * FEATURES);
    }
}

static void test_nll(void **state)
{
    (void)state;
    enum { N = 5, CLASSES = 10 };
    float *logits = random_floats(N * CLASSES), log_probs[N * CLASSES], dlogits[N * CLASSES],
          stats[2];
    const int32_t labels[N] = { 9, 0, 3, 3, 5 };
    for (int c = 0; c < CLASSES; c++)
        logits[2 * CLASSES + c] *= 80; // exp would overflow
    logits[0 * CLASSES + 9] = 1.5f; // right
    logits[3 * CLASSES + 3] = -1.5f; // wrong
    logits[4 * CLASSES + 5] = logits[4 * CLASSES + 7] = 1.5f; // a tie goes to the first

    int correct = 0;
    for (int i = 0; i < N; i++) {
        int best = 0;
        for (int c = 1; c < CLASSES; c++)
            best = logits[i * CLASSES + c] > logits[i * CLASSES + best] ? c : best;
        correct += best == labels[i];
    }
    double expected[N * CLASSES];
    const double loss = reference_nll(N, CLASSES, as_double(logits, N * CLASSES), labels, expected);

    device_cpu_ops.nll(&devices[0], N, CLASSES, logits, labels, log_probs, stats);
    device_cpu_ops.nll_grad(&devices[0], N, CLASSES, log_probs, labels, dlogits);
    assert_floats_close(&stats[0], &loss, 1);
    assert_int_equal((int)stats[1], correct);
    assert_floats_close(dlogits, expected, N * CLASSES);

    logits[0] = 1000; // its own would be infinite
    device_cpu_ops.nll(&devices[0], 1, CLASSES, logits, (int32_t[]){ 0 }, log_probs, stats);
    assert_true(stats[0] == 0);
}

static void test_mse(void **state)
{
    (void)state;
    const float y[] = { 1, 2, 3, 4 }, targets[] = { 0, 2, 5, 1 };
    float stats[2], dy[4];
    device_cpu_ops.mse(&devices[0], 4, y, targets, stats);
    assert_true(stats[0] == (1 + 0 + 4 + 9) / 4.0f);
    device_cpu_ops.mse_grad(&devices[0], 4, y, targets, dy);
    assert_memory_equal(dy, ((float[]){ 0.5f, 0, -1, 1.5f }), sizeof dy);
}

static void test_optimizers_and_threads(void **state)
{
    (void)state;
    enum { COUNT = 200003 }; // enough for threads; what they compute, test_optim.c checks
    const float *old = random_floats(COUNT), *grads = random_floats(COUNT);
    float *first = NULL;
    for (int i = 0; i < MAX_THREADS; i++) {
        const DeviceOps *ops = devices[i].ops;
        float *params = copy_of(old, COUNT), *a = zeros(COUNT), *b = zeros(COUNT);
        ops->adadelta(&devices[i], COUNT, params, grads, a, b, 1, 0.01f);
        ops->adam(&devices[i], COUNT, params, grads, a, b, 0.1, 0.01, true, 3);
        ops->sgd(&devices[i], COUNT, params, grads, a, 0.1f, 0.9f, 0.01f);
        first = i == 0 ? params : first;
        assert_same_bits(params, first, COUNT * sizeof(float));
        ops->zero(&devices[i], b, COUNT - 1);
        for (int j = 0; j < COUNT; j++)
            assert_true((b[j] == 0) == (j < COUNT - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_conv_relu, forget),
        cmocka_unit_test_teardown(test_conv_relu_pool, forget),
        cmocka_unit_test_teardown(test_conv_relu_grad, forget),
        cmocka_unit_test_teardown(test_conv_relu_pool_grad, forget),
        cmocka_unit_test_teardown(test_linear, forget),
        cmocka_unit_test_teardown(test_relu_grad, forget),
        cmocka_unit_test_teardown(test_dropout, forget),
        cmocka_unit_test_teardown(test_nll, forget),
        cmocka_unit_test_teardown(test_mse, forget),
        cmocka_unit_test_teardown(test_optimizers_and_threads, forget),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
