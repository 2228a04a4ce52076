/* Relu and pooling on a GPU propagate NaN in both directions, as in PyTorch: relu's gradient is 0
 * where the output is at most 0, which NaN is not, and the last NaN of a window is its largest.
 * The forward pass is compared with the plain device's. */
#include <math.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "common/nn/device.h"
#include "tests/helpers/unit.h"

enum { IMAGES = 3, MOST = 4096 };

static Device gpu, plain;

static float *on_device(Device *device, const float *host, size_t numel)
{
    float *array = device_malloc(device, numel * sizeof *array);
    device_copy(device, array, host, numel * sizeof *array, COPY_TO_DEVICE);
    return array;
}

/* A forward pass's results, in host memory. */
typedef struct {
    float y[MOST];
    uint8_t argmax[MOST];
} Output;

static void forward(Device *device, ConvShape shape, const float *x, const float *weight,
                    bool pooled, Output *output)
{
    const float bias[32] = { 0 };
    const int size = conv_out_size(shape) / (pooled ? 2 : 1);
    const size_t numel = (size_t)IMAGES * size * size * shape.out_channels;
    assert_true(numel <= MOST);
    if (device->ops->conv_reserve != NULL)
        device->ops->conv_reserve(device, shape);
    float *y = on_device(device, output->y, numel);
    uint8_t *argmax = device_malloc(device, numel);
    device->ops->conv_relu(
        device, shape, IMAGES,
        on_device(device, x, (size_t)IMAGES * shape.in_size * shape.in_size * shape.in_channels),
        on_device(device, weight, (size_t)shape.out_channels * conv_filter_numel(shape)),
        on_device(device, bias, shape.out_channels), y, pooled ? argmax : NULL);
    *output = (Output){ 0 };
    device_copy(device, output->y, y, numel * sizeof *y, COPY_TO_HOST);
    if (pooled)
        device_copy(device, output->argmax, argmax, numel, COPY_TO_HOST);
}

static void check_forward(ConvShape shape, bool pooled)
{
    static float x[MOST], weight[MOST];
    static Output ours, theirs;
    Rng rng;
    rng_seed(&rng, 1);
    for (int i = 0; i < MOST; i++) {
        x[i] = rng_uniform_between(&rng, -1, 1);
        weight[i] = rng_uniform_between(&rng, -1, 1);
    }
    for (int i = 0; i < MOST; i += 7) // up to two in a pooling window
        x[i] = NAN;
    forward(&gpu, shape, x, weight, pooled, &ours);
    forward(&plain, shape, x, weight, pooled, &theirs);
    int num_nans = 0;
    for (int i = 0; i < MOST; i++) {
        assert_int_equal(isnan(ours.y[i]), isnan(theirs.y[i]));
        assert_true(isnan(ours.y[i]) || fabsf(ours.y[i] - theirs.y[i]) < 1e-5f);
        assert_int_equal(ours.argmax[i], theirs.argmax[i]);
        num_nans += isnan(ours.y[i]) != 0;
    }
    assert_in_range(num_nans, 10, MOST);
}

static void test_forward(void **state)
{
    (void)state;
    check_forward((ConvShape){ 1, 10, 16, 3 }, false); // the first convolution's own kernel
    check_forward((ConvShape){ 2, 9, 8, 1 }, false);
    check_forward((ConvShape){ 2, 9, 8, 1 }, true);
}

/* A unit of each kind, and the result for a gradient of 2 with a scale of 3. */
static const float outputs[] = { NAN, 1, 0, -1, NAN, 5 };
static const float expected[] = { 6, 6, 0, 0, 6, 6 };
enum { UNITS = sizeof outputs / sizeof outputs[0], GRADIENT = 2, SCALE = 3 };

static void test_relu_grad(void **state)
{
    (void)state;
    float gradients[UNITS];
    for (int i = 0; i < UNITS; i++)
        gradients[i] = GRADIENT;
    float *dy = on_device(&gpu, gradients, UNITS);
    gpu.ops->relu_grad(&gpu, UNITS, on_device(&gpu, outputs, UNITS), SCALE, dy);
    device_copy(&gpu, gradients, dy, sizeof gradients, COPY_TO_HOST);
    assert_memory_equal(gradients, expected, sizeof expected);
}

/* Checks that the bias's gradient is the sum of all units' gradients. */
static void check_bias_gradient(ConvShape shape)
{
    const float zeros[MOST] = { 0 };
    const int size = conv_out_size(shape);
    const size_t numel = (size_t)IMAGES * size * size * shape.out_channels;
    float y[MOST], dy[MOST], sums[32] = { 0 }, dbias[32];
    for (size_t i = 0; i < numel; i++) {
        const size_t kind = i / shape.out_channels % UNITS;
        y[i] = outputs[kind];
        dy[i] = GRADIENT;
        sums[i % shape.out_channels] += expected[kind];
    }
    float *to = on_device(&gpu, zeros, shape.out_channels);
    gpu.ops->conv_reserve(&gpu, shape);
    gpu.ops->conv_grad(&gpu, shape, IMAGES, on_device(&gpu, zeros, MOST), on_device(&gpu, y, numel),
                       NULL, on_device(&gpu, zeros, MOST), SCALE, on_device(&gpu, dy, numel),
                       on_device(&gpu, zeros, MOST), to, NULL);
    device_copy(&gpu, dbias, to, shape.out_channels * sizeof *dbias, COPY_TO_HOST);
    assert_memory_equal(dbias, sums, shape.out_channels * sizeof *dbias);
}

static void test_conv_grad(void **state)
{
    (void)state;
    check_bias_gradient((ConvShape){ 1, 10, 16, 3 });
    check_bias_gradient((ConvShape){ 2, 9, 8, 1 });
}

int main(void)
{
    Args args;
    args_defaults(&args, "cnn");
    args.device = DEVICE_CUDA;
    device_init(&gpu, &args, 0);
    args.device = DEVICE_PLAIN;
    device_init(&plain, &args, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_relu_grad),
        cmocka_unit_test(test_conv_grad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
