/*
 * The models except for their gradients (test_gradients.c): initial weights against PyTorch's, the
 * order of the hooks, dropout independent of the ranks, and the count of correct predictions.
 */
#include "common/nn/optim.h"
#include "tests/common/nn/models.h"
#include "tests/helpers/child.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

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

static void use_model(void *context)
{
    (void)context;
    Subject subject;
    subject_init(&subject, "linear", 0, 2, 0);
    Optimizer optim;
    optim_init(&optim, &subject.args, &subject.model, 1);
    float *values = exported(&subject, 0, subject.model.params);
    model_import(&subject.model, 0, values, subject.model.params);
    free(values);
    optim_free(&optim);
    subject_free(&subject);
}

static void test_a_model_leaves_nothing(void **state)
{
    (void)state;
    const char *device = getenv("TEST_DEVICE");
    if (device != NULL && strcmp(device, "cuda") == 0)
        skip(); // the stand-in for CUDA keeps what is destroyed, to notice a later use
    assert_leaves_nothing(use_model, NULL);
}

static void check_initial_weights(const json_t *golden)
{
    const char *name = json_string_value(json_object_get(golden, "model"));
    const bool is_linear = strcmp(name, "linear") == 0;
    Subject subject;
    subject_init(&subject, name, json_integer_value(json_object_get(golden, "seed")), 1,
                 is_linear ? 2048 * 21 : 0); // after drawing the data set
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
        const size_t bytes = tensor->numel * sizeof *values;
        float *array = device_malloc(model->device, model->numel * sizeof *array);
        model_import(model, i - 1, values, array);
        float *imported = copied_from(model->device, array + tensor->offset, bytes);
        float *original = copied_from(model->device, model->params + tensor->offset, bytes);
        assert_memory_equal(imported, original, bytes);
        free(imported);
        free(original);
        device_release(model->device, array);
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

/* Devices keep channels last: [out][in][ky][kx] becomes [out][ky][kx][in], and the columns of a
 * layer on flattened images go from channel, row, column to row, column, channel. */
static void test_layouts(void **state)
{
    (void)state;
    Subject subject;
    subject_init(&subject, "cnn", 0, 1, 0);
    const Model *model = &subject.model;
    static const size_t channels[] = { 1, 1, 32, 1, 64, 1, 1, 1 };
    for (int i = 0; i < model->num_parameters; i++) {
        const Tensor *tensor = &model->parameter[i];
        const size_t columns = tensor->numel / tensor->shape[0], pixels = columns / channels[i];
        float *host = exported(&subject, i, model->params);
        const float *ours = copied_from(model->device, model->params + tensor->offset,
                                        tensor->numel * sizeof *ours);
        for (size_t j = 0; j < tensor->numel; j++) {
            const size_t row = j / columns, channel = j % columns / pixels, pixel = j % pixels;
            assert_true(host[j] == ours[row * columns + pixel * channels[i] + channel]);
        }
        free(host);
        free((void *)ours);
    }
    subject_free(&subject);
}

/* Records the calls, and keeps the gradients that were reported as complete. */
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
    device_copy(record->model->device, record->complete + tensor->offset,
                record->model->grads + tensor->offset, tensor->numel * sizeof(float), COPY_TO_HOST);
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
    float *grads = copied_from(model->device, model->grads, model->numel * sizeof *grads);
    assert_memory_equal(record.complete, grads, model->numel * sizeof *grads);
    free(grads);

    record.num_calls = 0; // a recorded step computes nothing here, and its buckets are counted
    model->device->replaying = true;
    model_backward(model);
    model->device->replaying = false;
    assert_int_equal(record.num_calls, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(record.calls[i], 7 - i);

    model_set_grad_hook(model, NULL, NULL);
    model_backward(model);
    assert_int_equal(record.num_calls, 8);
    free(record.complete);
    subject_free(&subject);
}

/* Places each layer in its own arrays just before it is computed, and removes them afterwards. */
typedef struct {
    Model *model;
    float *params, *grads;
    int calls[32], num_calls;
} Elsewhere;

static void place_elsewhere(void *context, int i, bool backward)
{
    Elsewhere *elsewhere = context;
    const size_t offset = elsewhere->model->parameter[2 * i].offset;
    elsewhere->calls[elsewhere->num_calls++] = backward ? -1 - i : 1 + i;
    model_place_layer(elsewhere->model, i, elsewhere->params + offset,
                      backward ? elsewhere->grads + offset : NULL);
}

static void place_nowhere(void *context, int i, bool backward)
{
    Elsewhere *elsewhere = context;
    elsewhere->calls[elsewhere->num_calls++] = backward ? -1 - i : 1 + i;
    model_place_layer(elsewhere->model, i, NULL, NULL);
}

static void test_layers_placed_by_hooks(void **state)
{
    (void)state;
    Subject subject;
    subject_init(&subject, "mlp", 0, 2, 0);
    Model *model = &subject.model;
    Device *device = model->device;
    const size_t bytes = model->numel * sizeof(float);
    const Batch batch = { random_dataset("cnn"), order, ROWS, 0, 0, 1 };
    model_forward(model, &batch);
    model_backward(model);
    const float loss = model_loss(model);
    float *expected = copied_from(device, model->grads, bytes);

    Elsewhere elsewhere = { .model = model };
    elsewhere.params = device_malloc(device, bytes);
    elsewhere.grads = device_malloc(device, bytes);
    device_copy(device, elsewhere.params, model->params, bytes, COPY_ON_DEVICE);
    model_zero_grad(model);
    model_set_layer_hooks(model, place_elsewhere, place_nowhere, &elsewhere);
    model_forward(model, &batch);
    model_backward(model);
    assert_true(model_loss(model) == loss);
    float *grads = copied_from(device, elsewhere.grads, bytes);
    assert_memory_equal(grads, expected, bytes);

    assert_int_equal(elsewhere.num_calls, 32); // 8 layers, before and after, in two passes
    for (int i = 0; i < 16; i++) {
        assert_int_equal(elsewhere.calls[i], 1 + i / 2);
        assert_int_equal(elsewhere.calls[16 + i], -8 + i / 2);
    }
    device_release(device, elsewhere.params);
    device_release(device, elsewhere.grads);
    free(expected);
    free(grads);
    subject_free(&subject);
}

/* Returns the training loss of rows rank, rank + world_size, ... of the first n. */
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

/* Of a row's ten labels one is right, and a batch has as many right ones as its rows together. */
static void test_correct_counts_rows(void **state)
{
    (void)state;
    Subject subject;
    subject_init(&subject, "cnn", 0, 2, 0);
    model_eval(&subject.model);
    int32_t labels[ROWS];
    Dataset dataset = *random_dataset("cnn");
    dataset.labels = labels;
    for (size_t row = 0; row < ROWS; row++) {
        int sum = 0, right = 0;
        for (int label = 0; label < CLASSES; label++) {
            labels[row] = label;
            model_forward(&subject.model, &(Batch){ &dataset, &row, 1, 0, 0, 1 });
            sum += model_correct(&subject.model);
            right = model_correct(&subject.model) == 1 ? label : right;
        }
        assert_int_equal(sum, 1);
        labels[row] = row < 2 ? (right + 1) % CLASSES : right;
    }
    model_forward(&subject.model, &(Batch){ &dataset, order, ROWS, 0, 0, 1 });
    assert_int_equal(model_correct(&subject.model), ROWS - 2);
    subject_free(&subject);
}

static void assert_loss_is_nan(Subject *subject, const Dataset *dataset)
{
    model_forward(&subject->model, &(Batch){ dataset, order, ROWS, 0, 0, 1 });
    assert_true(isnan(model_loss(&subject->model)));
}

/* A pixel or a parameter that is NaN shows in the loss. */
static void test_nan_reaches_the_loss(void **state)
{
    (void)state;
    Subject subject;
    subject_init(&subject, "cnn", 0, 2, 0);
    const Model *model = &subject.model;
    model_eval(&subject.model);
    Dataset *dataset = random_dataset("cnn");
    // The image's corners reach one output each, at the four positions of a pooled unit.
    const int corners[] = { 0, 27, 27 * 28, 27 * 28 + 27 };
    for (int i = 0; i < 4; i++) {
        const float pixel = dataset->floats[corners[i]];
        dataset->floats[corners[i]] = NAN;
        assert_loss_is_nan(&subject, dataset);
        dataset->floats[corners[i]] = pixel;
    }
    for (int i = 0; i < model->num_parameters; i++) {
        float *values = exported(&subject, i, model->params);
        const float value = values[0];
        values[0] = NAN;
        model_import(model, i, values, model->params);
        assert_loss_is_nan(&subject, dataset);
        values[0] = value;
        model_import(model, i, values, model->params);
        free(values);
    }
    model_forward(&subject.model, &(Batch){ dataset, order, ROWS, 0, 0, 1 });
    assert_false(isnan(model_loss(model)));
    subject_free(&subject);
}

static void forward(const void *batch)
{
    Subject subject;
    subject_init(&subject, "cnn", 0, 1, 0);
    model_forward(&subject.model, batch);
}

static void test_what_does_not_fit(void **state)
{
    (void)state;
    if (!tests_a_cpu())
        skip(); // a child cannot use its parent's GPU
    const Dataset *dataset = random_dataset("cnn");
    Dataset other = *dataset;
    assert_dies_saying(forward, (&(Batch){ dataset, order, 0, 0, 0, 1 }), 1, "batch of 0 rows");
    assert_dies_saying(forward, (&(Batch){ dataset, order, ROWS + 1, 0, 0, 1 }), 1,
                       "batch of 7 rows", "made for 1 to 6");
    other.num_classes = 9;
    assert_dies_saying(forward, (&(Batch){ &other, order, ROWS, 0, 0, 1 }), 1, "10 classes",
                       "has 784 and 9");
    other.num_classes = CLASSES;
    other.features--;
    assert_dies_saying(forward, (&(Batch){ &other, order, ROWS, 0, 0, 1 }), 1, "784 numbers",
                       "has 783 and 10");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_model_leaves_nothing),
        cmocka_unit_test(test_initial_weights),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_hook_order),
        cmocka_unit_test(test_layers_placed_by_hooks),
        cmocka_unit_test(test_dropout_knows_no_ranks),
        cmocka_unit_test(test_correct_counts_rows),
        cmocka_unit_test(test_nan_reaches_the_loss),
        cmocka_unit_test(test_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
