/* All kernels except convolutions against the reference, on the model's shapes and on odd ones; on
 * a CPU with 1, 2 and 3 threads, which must give the same bits. */
#include "tests/common/nn/kernels.h"

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
        for (int i = 0; i < num_devices; i++) {
            Device *device = &devices[i];
            float *ours[4] = { zeros(n * out), copy_of(old_dweight, out * in),
                               copy_of(old_dbias, out), random_floats(n * in) };
            if (device->ops->linear_reserve != NULL)
                device->ops->linear_reserve(device, n, in, out);
            device->ops->linear(device, n, in, out, false, x, weight, bias, ours[0]);
            device->ops->linear_grad_params(device, n, in, out, x, dy, ours[1], ours[2]);
            device->ops->linear_grad_input(device, n, in, out, dy, weight, ours[3]);
            assert_floats_close(ours[0], y, n * out);
            assert_floats_close(ours[1], dweight, out * in);
            assert_floats_close(ours[2], dbias, out);
            assert_floats_close(ours[3], dx, n * in);
            if (i % MAX_THREADS == 0)
                memcpy(first, ours, sizeof first);
            const int numel[4] = { n * out, out * in, out, n * in };
            for (int j = 0; j < 4; j++)
                assert_same_bits(ours[j], first[j], numel[j] * sizeof(float));

            float *with_relu = zeros(n * out);
            device->ops->linear(device, n, in, out, true, x, weight, bias, with_relu);
            const float *without = fetch_floats(ours[0], n * out);
            with_relu = fetch_floats(with_relu, n * out);
            for (int j = 0; j < n * out; j++)
                assert_true(with_relu[j] == (without[j] > 0 ? without[j] : 0));
        }
    }
}

static void test_relu_grad(void **state)
{
    (void)state;
    enum { COUNT = 2051 }; // more than a block of threads, and odd
    const float *y = random_floats(COUNT), *dy = random_floats(COUNT);
    float *ours = copy_of(dy, COUNT);
    devices[0].ops->relu_grad(&devices[0], COUNT, y, 2, ours);
    y = fetch_floats(y, COUNT), dy = fetch_floats(dy, COUNT), ours = fetch_floats(ours, COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_true(ours[i] == (y[i] > 0 ? dy[i] * 2 : 0));

    float *edge = to_device((float[]){ 5, -6 }, 2 * sizeof(float));
    devices[0].ops->relu_grad(&devices[0], 2, to_device((float[]){ 0, -0.0f }, 2 * sizeof(float)),
                              2, edge);
    assert_memory_equal(fetch(edge, 2 * sizeof(float)), ((float[]){ 0, 0 }), 2 * sizeof(float));
    for (int i = 0; i < num_devices; i++) { // a nan takes part, as in PyTorch's relu
        float *dy = to_device(&(float){ 3 }, sizeof(float));
        devices[i].ops->relu_grad(&devices[i], 1, to_device(&(float){ NAN }, sizeof(float)), 2, dy);
        assert_true(fetch_floats(dy, 1)[0] == 6);
    }
}

static void check_dropout(int features)
{
    const DropoutKey key = { .seed = 0x123456789abcdef0,
                             .step = 7,
                             .layer = 2,
                             .first_row = 3,
                             .row_stride = 5,
                             .p = 0.25f };
    enum { N = 9 };
    const float *x = random_floats(N * features);
    for (int i = 0; i < num_devices; i++) {
        float *y = copy_of(x, N * features);
        int kept_units = 0;
        devices[i].ops->dropout(&devices[i], N, features, key, y);
        y = fetch_floats(y, N * features);
        const float *before = fetch_floats(x, N * features);
        for (int row = 0; row < N; row++)
            for (int unit = 0; unit < features; unit++) {
                const int at = row * features + unit;
                const bool keeps = reference_keeps(key, row, unit);
                assert_true(fabsf(y[at] - (keeps ? before[at] * 4 / 3 : 0)) <= 1e-6f);
                kept_units += keeps;
            }
        assert_in_range(kept_units, 0.73 * N * features, 0.77 * N * features);
    }
}

static void test_dropout(void **state)
{
    (void)state;
    check_dropout(1003);
    check_dropout(1004); // divides into vectors
}

static void test_nll(void **state)
{
    (void)state;
    enum { N = 5, CLASSES = 10, NUMEL = N * CLASSES };
    const Device *device = &devices[0];
    float *logits = fetch_floats(random_floats(NUMEL), NUMEL);
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
    const float *x = to_device(logits, NUMEL * sizeof *logits);
    const int32_t *right = to_device(labels, sizeof labels);
    double expected[NUMEL];
    const double loss = reference_nll(N, CLASSES, as_double(x, NUMEL), labels, expected);

    float *log_probs = zeros(NUMEL), *dlogits = zeros(NUMEL), *stats = zeros(2);
    device->ops->nll(&devices[0], N, CLASSES, x, right, log_probs, stats);
    device->ops->nll_grad(&devices[0], N, CLASSES, log_probs, right, dlogits);
    assert_floats_close(stats, &loss, 1);
    assert_int_equal((int)fetch_floats(stats, 2)[1], correct);
    assert_floats_close(dlogits, expected, NUMEL);

    logits[0] = 1000; // this row's loss would be infinite
    x = to_device(logits, NUMEL * sizeof *logits);
    device->ops->nll(&devices[0], 1, CLASSES, x, to_device(&(int32_t){ 0 }, 4), log_probs, stats);
    assert_true(fetch_floats(stats, 1)[0] == 0);
}

/* More rows than a block has threads, and one row. */
static void test_losses_of_many_rows(void **state)
{
    (void)state;
    for (int n = 1; n <= 1601; n += 1600) {
        enum { CLASSES = 7 };
        const float *logits = random_floats(n * CLASSES), *targets = random_floats(n);
        int32_t *labels = keep(n, sizeof *labels);
        for (int i = 0; i < n; i++)
            labels[i] = (int32_t)(rng_next(&rng) % CLASSES);
        double *expected = keep(n * CLASSES, sizeof *expected);
        double loss = reference_nll(n, CLASSES, as_double(logits, n * CLASSES), labels, expected);
        const int32_t *right = to_device(labels, n * sizeof *labels);
        float *log_probs = zeros(n * CLASSES), *dlogits = zeros(n * CLASSES), *stats = zeros(2);
        const DeviceOps *ops = devices[0].ops;
        ops->nll(&devices[0], n, CLASSES, logits, right, log_probs, stats);
        ops->nll_grad(&devices[0], n, CLASSES, log_probs, right, dlogits);
        assert_floats_close(stats, &loss, 1);
        assert_floats_close(dlogits, expected, n * CLASSES);

        const double *y = as_double(logits, n), *t = as_double(targets, n);
        loss = 0;
        for (int i = 0; i < n; i++) {
            loss += (y[i] - t[i]) * (y[i] - t[i]) / n;
            expected[i] = 2 * (y[i] - t[i]) / n;
        }
        ops->mse(&devices[0], n, logits, targets, stats);
        ops->mse_grad(&devices[0], n, logits, targets, dlogits);
        assert_floats_close(stats, &loss, 1);
        assert_floats_close(dlogits, expected, n);
    }
}

static void test_mse(void **state)
{
    (void)state;
    const float *y = to_device((float[]){ 1, 2, 3, 4 }, 4 * sizeof *y);
    const float *targets = to_device((float[]){ 0, 2, 5, 1 }, 4 * sizeof *targets);
    float *stats = zeros(2), *dy = zeros(4);
    devices[0].ops->mse(&devices[0], 4, y, targets, stats);
    assert_true(fetch_floats(stats, 1)[0] == (1 + 0 + 4 + 9) / 4.0f);
    devices[0].ops->mse_grad(&devices[0], 4, y, targets, dy);
    assert_memory_equal(fetch(dy, 16), ((float[]){ 0.5f, 0, -1, 1.5f }), 16);
}

static void test_optimizers_and_threads(void **state)
{
    (void)state;
    enum { COUNT = 200003 }; // enough for threads; test_optim.c checks the results
    // One element more than the optimizers may touch.
    const float *old = random_floats(COUNT + 1), *grads = random_floats(COUNT + 1);
    float *first = NULL;
    for (int i = 0; i < num_devices; i++) {
        const DeviceOps *ops = devices[i].ops;
        float *params = copy_of(old, COUNT + 1), *a = zeros(COUNT + 1), *b = zeros(COUNT + 1);
        const OptimRule rules[] = { { OPTIM_ADADELTA, 1, 0, 0.01, { a, b } },
                                    { OPTIM_ADAMW, 0.1, 0, 0.01, { a, b } },
                                    { OPTIM_SGD, 0.1, 0.9, 0.01, { a } } };
        for (int j = 0; j < 3; j++)
            ops->optim(&devices[i], COUNT, params, grads, &rules[j], (OptimStep){ .number = 3 });
        first = i % MAX_THREADS == 0 ? params : first;
        assert_same_bits(params, first, COUNT * sizeof(float));
        assert_same_bits(params + COUNT, old + COUNT, sizeof(float));
        ops->zero(&devices[i], b, COUNT - 1);
        b = fetch_floats(b, COUNT);
        for (int j = 0; j < COUNT; j++)
            assert_true((b[j] == 0) == (j < COUNT - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_linear, forget),
        cmocka_unit_test_teardown(test_relu_grad, forget),
        cmocka_unit_test_teardown(test_dropout, forget),
        cmocka_unit_test_teardown(test_nll, forget),
        cmocka_unit_test_teardown(test_losses_of_many_rows, forget),
        cmocka_unit_test_teardown(test_mse, forget),
        cmocka_unit_test_teardown(test_optimizers_and_threads, forget),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
