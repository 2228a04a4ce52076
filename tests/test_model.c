/*
 * The two models: initial weights against PyTorch's, gradients against a float64 network whose own
 * are checked by finite differences, the order of the hooks, and dropout that knows no ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/base/memory.h"
#include "common/nn/model.h"
#include "tests/reference.h"

enum {
    ROWS = 6,
    IN = 28 * 28,
    A1 = 32 * 26 * 26,
    A2 = 64 * 24 * 24,
    P = 64 * 12 * 12,
    H = 128,
    OUT = 10
};

static Args make_args(const char *model, uint64_t seed, int threads)
{
    return (
        Args){ .model = model, .device = "cpu", .threads = threads, .seed = seed, .dropout = true };
}

/* A model with its device, made of a generator that has drawn `drawn` numbers. */
typedef struct {
    Args args;
    Device device;
    Model model;
} Subject;

static void subject_init(Subject *subject, const char *name, uint64_t seed, int threads, int drawn)
{
    Rng rng;
    rng_seed(&rng, seed);
    for (int i = 0; i < drawn; i++)
        rng_next(&rng);
    subject->args = make_args(name, seed, threads);
    device_init(&subject->device, &subject->args, 0);
    model_init(&subject->model, &subject->args, ROWS, &rng, &subject->device);
}

static void subject_free(Subject *subject)
{
    model_free(&subject->model);
    device_free(&subject->device);
}

/* One parameter, or its gradient, in PyTorch's layout; to be freed. */
static float *exported(const Subject *subject, int i, const float *array)
{
    float *host = mem_calloc(subject->model.parameter[i].numel, sizeof *host);
    model_export(&subject->model, i, array, host);
    return host;
}

static double *exported_all(const Subject *subject, const float *array)
{
    const Model *model = &subject->model;
    double *all = mem_calloc(model->numel, sizeof *all);
    for (int i = 0; i < model->num_parameters; i++) {
        float *host = exported(subject, i, array);
        for (size_t j = 0; j < model->parameter[i].numel; j++)
            all[model->parameter[i].offset + j] = host[j];
        free(host);
    }
    return all;
}

static void assert_sha256(const void *data, size_t bytes, const char *expected)
{
    char path[] = "/tmp/test_model.XXXXXX", command[64], digest[65] = "";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    close(fd);
    snprintf(command, sizeof command, "sha256sum %s", path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(digest, sizeof digest, pipe));
    pclose(pipe);
    unlink(path);
    assert_string_equal(digest, expected);
}

static void check_initial_weights(const json_t *golden)
{
    const char *name = json_string_value(json_object_get(golden, "model"));
    const bool is_linear = strcmp(name, "linear") == 0;
    Subject subject;
    subject_init(&subject, name, json_integer_value(json_object_get(golden, "seed")), 1,
                 is_linear ? 2048 * 21 : 0); // the data set was drawn before
    const Model *model = &subject.model;

    json_t *params = json_object_get(golden, "params"), *param;
    assert_int_equal(json_object_size(params), model->num_parameters);
    const char *key;
    int i = 0;
    size_t offset = 0;
    json_object_foreach(params, key, param)
    {
        const Tensor *tensor = &model->parameter[i];
        assert_string_equal(tensor->name, key);
        assert_int_equal(tensor->offset, offset);
        offset += tensor->numel;
        const json_t *shape = json_object_get(param, "shape");
        assert_int_equal(json_array_size(shape), tensor->ndim);
        for (int d = 0; d < tensor->ndim; d++)
            assert_int_equal(json_integer_value(json_array_get(shape, d)), tensor->shape[d]);

        float *values = exported(&subject, i++, model->params);
        const json_t *first = json_object_get(param, "first");
        for (size_t j = 0; j < json_array_size(first); j++)
            assert_true(values[j] == (float)json_real_value(json_array_get(first, j)));
        assert_sha256(values, tensor->numel * sizeof *values,
                      json_string_value(json_object_get(param, "sha256_le_float32")));

        // Import is the inverse of export.
        float *array = mem_calloc(model->numel, sizeof *array);
        model_import(model, i - 1, values, array);
        assert_memory_equal(array + tensor->offset, model->params + tensor->offset,
                            tensor->numel * sizeof *array);
        free(array);
        free(values);
    }
    assert_int_equal(model->numel, offset);
    subject_free(&subject);
}

static void test_initial_weights(void **state)
{
    (void)state;
    FILE *file = fopen("tests/golden/init.jsonl", "r");
    assert_non_null(file);
    json_t *golden;
    int lines = 0;
    for (; (golden = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)) != NULL; lines++) {
        check_initial_weights(golden);
        json_decref(golden);
    }
    fclose(file);
    assert_int_equal(lines, 8);
}

/* Random rows, with labels or targets. */
static Dataset *random_dataset(const char *model)
{
    static Dataset dataset;
    static float inputs[ROWS * IN], targets[ROWS];
    static int32_t labels[ROWS];
    Rng rng;
    rng_seed(&rng, 99);
    for (int i = 0; i < ROWS * IN; i++)
        inputs[i] = rng_uniform_between(&rng, -1, 1);
    for (int i = 0; i < ROWS; i++) {
        labels[i] = rng_next(&rng) % OUT;
        targets[i] = rng_uniform(&rng);
    }
    const bool is_cnn = strcmp(model, "cnn") == 0;
    dataset = (Dataset){ .name = "random", .size = ROWS, .floats = inputs, .std = 1 };
    dataset.features = is_cnn ? IN : 20;
    dataset.num_classes = is_cnn ? OUT : 0;
    dataset.labels = is_cnn ? labels : NULL;
    dataset.targets = is_cnn ? NULL : targets;
    return &dataset;
}

static const size_t order[ROWS] = { 3, 0, 5, 1, 4, 2 };

/* In float64: the loss of the first n rows of `order`, and the gradient added to grads. Where keys
 * is not NULL, dropout acts, after layers 1 and 2. */
static double reference_cnn(int n, const double *params, double *grads, const DropoutKey *keys)
{
    static const ConvShape conv1 = { 1, 28, 32, 3 }, conv2 = { 32, 26, 64, 3 };
    static double x[ROWS * IN], a1[ROWS * A1], a2[ROWS * A2], p[ROWS * P], h[ROWS * H],
        z[ROWS * OUT];
    static double dx[ROWS * IN], da1[ROWS * A1], da2[ROWS * A2], dp[ROWS * P], dh[ROWS * H];
    static double dz[ROWS * OUT], p_scale[ROWS * P], h_scale[ROWS * H];
    static uint8_t argmax[ROWS * P];
    enum {
        W1 = 0,
        B1 = W1 + 288,
        W2 = B1 + 32,
        B2 = W2 + 64 * 288,
        W3 = B2 + 64,
        B3 = W3 + H * P,
        W4 = B3 + H,
        B4 = W4 + OUT * H
    };
    const Dataset *dataset = random_dataset("cnn");
    int32_t labels[ROWS];
    for (int i = 0; i < n; i++) {
        labels[i] = dataset->labels[order[i]];
        for (int j = 0; j < IN; j++)
            x[i * IN + j] = dataset->floats[order[i] * IN + j];
        for (int j = 0; j < P; j++) { // masks count channels last
            const int unit = j % 144 * 64 + j / 144;
            p_scale[i * P + j] = keys == NULL ? 1 : reference_keeps(keys[0], i, unit) / 0.75;
        }
        for (int j = 0; j < H; j++)
            h_scale[i * H + j] = keys == NULL ? 1 : reference_keeps(keys[1], i, j) / 0.5;
    }

    reference_conv(conv1, n, x, params + W1, params + B1, a1);
    for (int i = 0; i < n * A1; i++)
        a1[i] = fmax(a1[i], 0);
    reference_conv(conv2, n, a1, params + W2, params + B2, a2);
    reference_pool(n * 64, 24, a2, p, argmax);
    for (int i = 0; i < n * P; i++)
        p[i] = fmax(p[i], 0) * p_scale[i];
    reference_linear(n, P, H, p, params + W3, params + B3, h);
    for (int i = 0; i < n * H; i++)
        h[i] = fmax(h[i], 0) * h_scale[i];
    reference_linear(n, H, OUT, h, params + W4, params + B4, z);
    const double loss = reference_nll(n, OUT, z, labels, dz);
    if (grads == NULL)
        return loss;

    memset(dh, 0, sizeof dh);
    memset(dp, 0, sizeof dp);
    memset(da1, 0, sizeof da1);
    reference_linear_grad(n, H, OUT, h, params + W4, dz, grads + W4, grads + B4, dh);
    for (int i = 0; i < n * H; i++)
        dh[i] *= h[i] > 0 ? h_scale[i] : 0;
    reference_linear_grad(n, P, H, p, params + W3, dh, grads + W3, grads + B3, dp);
    for (int i = 0; i < n * P; i++)
        dp[i] *= p[i] > 0 ? p_scale[i] : 0;
    reference_pool_grad(n * 64, 24, dp, argmax, da2);
    reference_conv_grad(conv2, n, a1, params + W2, da2, grads + W2, grads + B2, da1);
    for (int i = 0; i < n * A1; i++)
        da1[i] *= a1[i] > 0;
    reference_conv_grad(conv1, n, x, params + W1, da1, grads + W1, grads + B1, dx);
    return loss;
}

static double reference_mse(int n, const double *params, double *grads, const DropoutKey *keys)
{
    (void)keys;
    const Dataset *dataset = random_dataset("linear");
    double loss = 0;
    for (int i = 0; i < n; i++) {
        const float *x = dataset->floats + order[i] * 20;
        double error = params[20] - dataset->targets[order[i]];
        for (int j = 0; j < 20; j++)
            error += params[j] * x[j];
        loss += error * error / n;
        for (int j = 0; grads != NULL && j <= 20; j++)
            grads[j] += 2 * error / n * (j < 20 ? x[j] : 1);
    }
    return loss;
}

typedef double ReferenceLoss(int n, const double *params, double *grads, const DropoutKey *keys);

/* For each parameter, the slope of the loss along a random direction through all its numbers. */
static void check_by_differences(const Model *model, ReferenceLoss *loss, int n, double *params,
                                 const double *grads, const DropoutKey *keys)
{
    const double h = 1e-6;
    Rng rng;
    rng_seed(&rng, 5);
    for (int i = 0; i < model->num_parameters; i++) {
        const Tensor *tensor = &model->parameter[i];
        double *direction = mem_calloc(tensor->numel, sizeof *direction);
        double *slice = params + tensor->offset;
        double slope = 0, norm = 0;
        for (size_t j = 0; j < tensor->numel; j++) {
            direction[j] = rng_uniform_between(&rng, -1, 1);
            slope += direction[j] * grads[tensor->offset + j];
            norm += fabs(direction[j] * grads[tensor->offset + j]);
            slice[j] += h * direction[j];
        }
        double difference = loss(n, params, NULL, keys);
        for (size_t j = 0; j < tensor->numel; j++)
            slice[j] -= 2 * h * direction[j];
        difference -= loss(n, params, NULL, keys);
        for (size_t j = 0; j < tensor->numel; j++)
            slice[j] += h * direction[j];
        free(direction);
        if (fabs(difference / (2 * h) - slope) > 1e-7 * norm)
            fail_msg("%s: slope %g, gradient says %g", tensor->name, difference / (2 * h), slope);
    }
}

static void check_gradients(const char *name, ReferenceLoss *loss, bool training)
{
    enum { N = 2 };
    Subject subject;
    subject_init(&subject, name, 4, 2, 0);
    Model *model = &subject.model;
    model->step = 11;
    if (!training)
        model_eval(model);
    const Batch batch = { random_dataset(name), order, N, 0, 40, 3 };
    DropoutKey keys[2];
    for (int i = 0; i < 2; i++)
        keys[i] = (DropoutKey){ .seed = 4,
                                .step = 11,
                                .layer = i + 1,
                                .first_place = 40,
                                .place_stride = 3,
                                .p = i == 0 ? 0.25f : 0.5f };
    const DropoutKey *acting = training ? keys : NULL;

    double *params = exported_all(&subject, model->params);
    double *expected = mem_calloc(model->numel, sizeof *expected);
    const double expected_loss = loss(N, params, expected, acting);
    check_by_differences(model, loss, N, params, expected, acting);

    for (int pass = 1; pass <= 2; pass++) { // the second adds to the first
        model_forward(model, &batch);
        assert_true(fabs(model_loss(model) - expected_loss) < 1e-5 * expected_loss);
        model_backward(model);
        double *actual = exported_all(&subject, model->grads);
        for (int i = 0; i < model->num_parameters; i++) {
            const Tensor *tensor = &model->parameter[i];
            double error = 0, largest = 0;
            for (size_t j = tensor->offset; j < tensor->offset + tensor->numel; j++) {
                error = fmax(error, fabs(actual[j] - pass * expected[j]));
                largest = fmax(largest, pass * fabs(expected[j]));
            }
            if (error > 1e-5 * largest)
                fail_msg("%s: error %g of gradients up to %g", tensor->name, error, largest);
        }
        free(actual);
    }

    model_zero_grad(model);
    for (size_t i = 0; i < model->numel; i++)
        assert_true(model->grads[i] == 0);
    free(expected);
    free(params);
    subject_free(&subject);
}

static void test_gradients(void **state)
{
    (void)state;
    check_gradients("linear", reference_mse, true);
    check_gradients("cnn", reference_cnn, false);
    check_gradients("cnn", reference_cnn, true);
}

/* Takes down the calls, and keeps the gradients that were said to be complete. */
typedef struct {
    const Model *model;
    int calls[MODEL_MAX_PARAMETERS], num_calls;
    float *complete;
} HookRecord;

static void record_hook(void *context, int i)
{
    HookRecord *record = context;
    const Tensor *tensor = &record->model->parameter[i];
    record->calls[record->num_calls++] = i;
    memcpy(record->complete + tensor->offset, record->model->grads + tensor->offset,
           tensor->numel * sizeof(float));
}

static void test_hook_order(void **state)
{
    (void)state;
    Subject subject;
    subject_init(&subject, "cnn", 0, 2, 0);
    Model *model = &subject.model;
    HookRecord record = { .model = model };
    record.complete = mem_calloc(model->numel, sizeof *record.complete);
    model_set_grad_hook(model, record_hook, &record);
    model_forward(model, &(Batch){ random_dataset("cnn"), order, ROWS, 0, 0, 1 });
    model_backward(model);

    assert_int_equal(record.num_calls, 8);
    for (int i = 0; i < 8; i += 2) { // weight and bias of a layer, the last layer first
        const int layer = 3 - i / 2;
        assert_int_equal(record.calls[i] / 2, layer);
        assert_int_equal(record.calls[i + 1] / 2, layer);
        assert_int_not_equal(record.calls[i], record.calls[i + 1]);
    }
    assert_memory_equal(record.complete, model->grads, model->numel * sizeof(float));

    model_set_grad_hook(model, NULL, NULL);
    model_backward(model);
    assert_int_equal(record.num_calls, 8);
    free(record.complete);
    subject_free(&subject);
}

/* The loss of rows rank, rank + world_size, ... of the first n, in training. */
static double dropout_loss(int threads, uint64_t step, int n, int rank, int world_size)
{
    Subject subject;
    subject_init(&subject, "cnn", 0, threads, 0);
    size_t index[ROWS];
    int size = 0;
    for (int i = rank; i < n; i += world_size)
        index[size++] = order[i];
    subject.model.step = step;
    model_forward(&subject.model,
                  &(Batch){ random_dataset("cnn"), index, size, 0, rank, world_size });
    const double loss = model_loss(&subject.model);
    subject_free(&subject);
    return loss;
}

static void test_dropout_knows_no_ranks(void **state)
{
    (void)state;
    const double alone = dropout_loss(1, 3, ROWS, 0, 1);
    assert_true(dropout_loss(3, 3, ROWS, 0, 1) == alone);
    for (int world_size = 2; world_size <= 3; world_size++) {
        double mean = 0;
        for (int rank = 0; rank < world_size; rank++)
            mean += dropout_loss(1, 3, ROWS, rank, world_size) / world_size;
        assert_true(fabs(mean - alone) < 1e-6);
    }
    assert_true(fabs(dropout_loss(1, 4, ROWS, 0, 1) - alone) > 1e-4); // another step, another mask
}

static void test_correct_counts_rows(void **state)
{
    (void)state;
    Subject subject;
    subject_init(&subject, "cnn", 0, 2, 0);
    model_eval(&subject.model);
    const Dataset *dataset = random_dataset("cnn");
    int sum = 0;
    for (size_t row = 0; row < ROWS; row++) {
        model_forward(&subject.model, &(Batch){ dataset, &row, 1, 0, 0, 1 });
        const int correct = model_correct(&subject.model);
        assert_in_range(correct, 0, 1);
        sum += correct;
    }
    model_forward(&subject.model, &(Batch){ dataset, order, ROWS, 0, 0, 1 });
    assert_int_equal(model_correct(&subject.model), sum);
    subject_free(&subject);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initial_weights),     cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_hook_order),          cmocka_unit_test(test_dropout_knows_no_ranks),
        cmocka_unit_test(test_correct_counts_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
