/* --amp on a CPU, or with TEST_DEVICE=plain on the plain device: products of bf16 against the
 * reference, whose operands are rounded by arithmetic on their bits; odd sizes; the same bits with
 * 1, 2 and 3 threads; and a training on the digits. */
#include <math.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/nn/optim.h"
#include "extras/fast_cpu/cpu_bf16.h"
#include "tests/common/nn/kernels.h"
#include "tests/helpers/child.h"

enum { FEW_OUTPUTS = 32 };

static int set_up(void **state)
{
    (void)state;
    rng_seed(&rng, 1);
    num_devices = MAX_THREADS;
    for (int i = 0; i < num_devices; i++) {
        const Args args = { .device = test_device_kind(), .threads = i + 1, .amp = AMP_BF16 };
        device_init(&devices[i], &args, 0);
    }
    return 0;
}

/* Rounds to the nearest number whose lower 16 bits are zero, ties to even. */
static float rounded(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static double *as_operand(const float *values, size_t numel, bool rounds)
{
    double *copy = keep(numel, sizeof *copy);
    for (size_t i = 0; i < numel; i++)
        copy[i] = rounds ? rounded(values[i]) : values[i];
    return copy;
}

static void test_rounding(void **state)
{
    (void)state;
    const float special[] = { 0,           -0.0f,         1,
                              1.00390625f, 1.01171875f,   -1.00390625f,
                              3.3895e38f,  1 / 0.0f,      1.2e-38f,
                              65504,       0x1.00fffep0f, 0x1.ffp0f };
    for (int count = 1; count <= 40; count++) {
        float *above = random_floats(count), *below = random_floats(count);
        memcpy(above, special, sizeof(float) * (count < 12 ? count : 12));
        Bf16Pair *line = keep((size_t)count + 2, sizeof *line);
        Bf16Pair *both = keep((size_t)count + 1, sizeof *both);
        cpu_bf16_round(count, above, line);
        cpu_bf16_interleave(count, above, below, both);
        for (int i = 0; i < count; i++) {
            uint32_t a, b;
            memcpy(&a, &(float){ rounded(above[i]) }, sizeof a);
            memcpy(&b, &(float){ rounded(below[i]) }, sizeof b);
            assert_int_equal(line[i / 2] >> (i % 2 * 16) & 0xffff, a >> 16);
            assert_int_equal(both[i], a >> 16 | (b & 0xffff0000));
        }
        assert_int_equal(line[(count + 1) / 2], 0); // and nothing is written behind it
        assert_int_equal(both[count], 0);
        if (count % 2 == 1)
            assert_int_equal(line[count / 2] >> 16, 0);
    }
}

static const struct {
    int n, in, out;
} linear_cases[] = { { 3, 2, 77 },  { 5, 9216, 128 }, { 64, 130, 40 },
                     { 1, 1, 33 },  { 7, 1037, 57 },  { 131, 130, 137 },
                     { 3, 20, 10 }, { 4, 50, 31 },    { 4, 50, 32 } };

static void check_linear(int n, int in, int out)
{
    const bool rounds = out >= FEW_OUTPUTS;
    const float *x = random_floats(n * in), *weight = random_floats(out * in);
    const float *bias = random_floats(out), *dy = random_floats(n * out);
    const float *old_dweight = random_floats(out * in), *old_dbias = random_floats(out);
    double *y = keep(n * out, sizeof *y), *dx = keep(n * in, sizeof *dx);
    double *dweight = as_operand(old_dweight, out * in, false);
    double *unused = keep(out * in, sizeof *unused), *dbias = as_operand(old_dbias, out, false);
    const double *x_in = as_operand(x, n * in, rounds), *dy_in = as_operand(dy, n * out, rounds);
    const double *weight_in = as_operand(weight, out * in, rounds);
    reference_linear(n, in, out, x_in, weight_in, as_operand(bias, out, false), y);
    reference_linear_grad(n, in, out, x_in, weight_in, dy_in, dweight, keep(out, sizeof *dbias),
                          dx);
    reference_linear_grad(n, in, out, x_in, weight_in, as_operand(dy, n * out, false), unused,
                          dbias, keep(n * in, sizeof *dx)); // a bias is not multiplied

    const size_t numel[4] = { n * out, out * in, out, n * in };
    float *first[4] = { NULL };
    for (int i = 0; i < MAX_THREADS; i++) {
        Device *device = &devices[i];
        float *ours[4];
        for (int j = 0; j < 4; j++)
            ours[j] = keep(numel[j], sizeof(float));
        memcpy(ours[1], old_dweight, numel[1] * sizeof(float));
        memcpy(ours[2], old_dbias, numel[2] * sizeof(float));
        device->ops->linear(device, n, in, out, false, x, weight, bias, ours[0]);
        device->ops->linear_grad_params(device, n, in, out, x, dy, ours[1], ours[2]);
        device->ops->linear_grad_input(device, n, in, out, dy, weight, ours[3]);
        const double *expected[4] = { y, dweight, dbias, dx };
        for (int j = 0; j < 4; j++) {
            assert_floats_close(ours[j], expected[j], numel[j]);
            first[j] = i == 0 ? ours[j] : first[j];
            assert_memory_equal(ours[j], first[j], numel[j] * sizeof(float));
        }
    }
}

static void test_linear(void **state)
{
    (void)state;
    for (size_t t = 0; t < LENGTH(linear_cases); t++)
        check_linear(linear_cases[t].n, linear_cases[t].in, linear_cases[t].out);

    // Relu, which passes NaN through.
    enum { OUT = 33 };
    const float *weight = random_floats(OUT), *bias = random_floats(OUT);
    float y[OUT], with_relu[OUT];
    for (int i = 0; i < 2; i++) {
        const float x = i == 0 ? 1 : NAN;
        devices[0].ops->linear(&devices[0], 1, 1, OUT, false, &x, weight, bias, y);
        devices[0].ops->linear(&devices[0], 1, 1, OUT, true, &x, weight, bias, with_relu);
        for (int j = 0; j < OUT; j++)
            assert_true(isnan(x) ? isnan(with_relu[j]) : with_relu[j] == fmaxf(y[j], 0));
    }
}

/* Transposes [outer][rows][columns], to convert between channels first and channels last. */
static void transpose(int outer, int rows, int columns, const double *from, double *to)
{
    for (int o = 0; o < outer; o++)
        for (int row = 0; row < rows; row++)
            for (int column = 0; column < columns; column++)
                to[(o * columns + column) * rows + row] = from[(o * rows + row) * columns + column];
}

static void check_conv(ConvShape s, int n)
{
    const bool rounds = s.in_channels % 2 == 0;
    const int size = conv_out_size(s), units = (size / 2) * (size / 2),
              window = s.kernel * s.kernel;
    const size_t x_numel = (size_t)n * s.in_size * s.in_size * s.in_channels;
    const size_t y_numel = (size_t)n * units * s.out_channels;
    const size_t weight_numel = (size_t)s.out_channels * conv_filter_numel(s);
    const float *x = random_floats(x_numel), *weight = random_floats(weight_numel);
    const float *bias = random_floats(s.out_channels);

    double *images = keep(x_numel, sizeof *images), *filters = keep(weight_numel, sizeof *filters);
    transpose(n, s.in_size * s.in_size, s.in_channels, as_operand(x, x_numel, rounds), images);
    transpose(s.out_channels, window, s.in_channels, as_operand(weight, weight_numel, rounds),
              filters);
    double *full = keep((size_t)n * s.out_channels * size * size, sizeof *full);
    double *pooled = keep(y_numel, sizeof *pooled), *expected = keep(y_numel, sizeof *expected);
    reference_conv(s, n, images, filters, as_operand(bias, s.out_channels, false), full);
    reference_pool(n * s.out_channels, size, full, pooled, keep(y_numel, 1));
    transpose(n, s.out_channels, units, pooled, expected);
    for (size_t i = 0; i < y_numel; i++)
        expected[i] = fmax(expected[i], 0);

    float *first = NULL;
    for (int i = 0; i < MAX_THREADS; i++) {
        float *y = keep(y_numel, sizeof *y);
        devices[i].ops->conv_relu(&devices[i], s, n, x, weight, bias, y, keep(y_numel, 1));
        assert_floats_close(y, expected, y_numel);
        first = i == 0 ? y : first;
        assert_memory_equal(y, first, y_numel * sizeof *y);
    }
}

static void test_conv(void **state)
{
    (void)state;
    check_conv((ConvShape){ 32, 26, 64, 3 }, 2);
    check_conv((ConvShape){ 2, 7, 5, 2 }, 3);
    check_conv((ConvShape){ 4, 9, 83, 3 }, 7);
    check_conv((ConvShape){ 6, 4, 16, 3 }, 1);
    check_conv((ConvShape){ 3, 7, 5, 2 }, 2); // float32, because 7 channels do not form pairs
}

enum { STEPS = 60, LAST = 9, BATCH = 8 };

/* Returns the mean loss over the last steps of a training. */
static double train(Amp amp)
{
    Args args;
    args_defaults(&args, "cnn");
    args.device = test_device_kind();
    args.threads = 1;
    args.optimizer = OPTIM_ADAM;
    args.lr = 1e-3;
    args.amp = amp;
    Device device;
    device_init(&device, &args, 0);
    Rng weights;
    rng_seed(&weights, 0);
    Dataset dataset;
    dataset_init(&dataset, &args, TRAIN, &weights);
    Sampler sampler;
    distributed_sampler_init(&sampler, dataset.size, 0, 1, true, true, 0);
    DataLoader loader;
    dataloader_init(&loader, &dataset, &sampler, BATCH);
    Model model;
    model_init(&model, &args, BATCH, &weights, &device);
    Optimizer optim;
    optim_init(&optim, &args, &model, 1);
    double loss = 0;
    while (model.step < STEPS) {
        const Batch *batch = dataloader_next(&loader);
        if (batch == NULL)
            continue; // the next epoch begins
        model_zero_grad(&model);
        model_forward(&model, batch);
        model_backward(&model);
        optim_step(&optim);
        if (model.step > STEPS - LAST)
            loss += model_loss(&model) / LAST;
    }
    optim_free(&optim);
    model_free(&model);
    dataloader_free(&loader);
    sampler_free(&sampler);
    dataset_free(&dataset);
    device_free(&device);
    return loss;
}

static void test_training(void **state)
{
    (void)state;
    const double exact = train(AMP_OFF), loss = train(AMP_BF16);
    assert_true(exact < 1); // the loss began at ln 10 = 2.3
    if (fabs(loss - exact) > 0.05 * exact)
        fail_msg("a loss of %g with bf16, %g without", loss, exact);
    assert_true(loss != exact);
}

static void open_device(const void *args)
{
    Device device;
    device_init(&device, args, 0);
    device_free(&device);
}

static void assert_refused(Args args, const char *text)
{
    args.device = test_device_kind();
    assert_dies_saying(open_device, &args, 2, text);
}

static void test_refused_on_cpu(void **state)
{
    (void)state;
    assert_refused((Args){ .amp = AMP_FP16 }, "--amp fp16 needs a GPU: use --amp bf16");
    assert_refused((Args){ .tf32 = true }, "--tf32 on");
    assert_refused((Args){ .cuda_graph = true }, "--cuda-graph on");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_rounding, forget),
        cmocka_unit_test_teardown(test_linear, forget),
        cmocka_unit_test_teardown(test_conv, forget),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_refused_on_cpu),
    };
    return cmocka_run_group_tests(tests, set_up, teardown);
}
