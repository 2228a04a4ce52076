/*
 * The gradients of both models against a float64 network in plain loops, which finite differences
 * check. With dropout too: the reference draws its masks as device.h defines them.
 */
#include "tests/common/nn/models.h"
#include "tests/common/nn/reference.h"

enum { A1 = 32 * 26 * 26, A2 = 64 * 24 * 24, P = 64 * 12 * 12, H = 128 };

/* Offsets of the cnn's parameters. */
enum {
    WEIGHT1 = 0,
    BIAS1 = WEIGHT1 + 32 * 9,
    WEIGHT2 = BIAS1 + 32,
    BIAS2 = WEIGHT2 + 64 * 32 * 9,
    WEIGHT3 = BIAS2 + 64,
    BIAS3 = WEIGHT3 + H * P,
    WEIGHT4 = BIAS3 + H,
    BIAS4 = WEIGHT4 + CLASSES * H
};

static const ConvShape conv1 = { 1, 28, 32, 3 }, conv2 = { 32, 26, 64, 3 };

/* The cnn in float64: its activations, their gradients, and the dropout factors. */
static struct {
    double x[ROWS * PIXELS], a1[ROWS * A1], a2[ROWS * A2], p[ROWS * P], h[ROWS * H];
    double z[ROWS * CLASSES], dx[ROWS * PIXELS], da1[ROWS * A1], da2[ROWS * A2], dp[ROWS * P];
    double dh[ROWS * H], dz[ROWS * CLASSES], p_scale[ROWS * P], h_scale[ROWS * H];
    uint8_t argmax[ROWS * P];
    int32_t labels[ROWS];
} net;

/* Loads the first n rows of `order`, and the dropout masks of layers 1 and 2 (no masks if NULL). */
static void load_batch(int n, const DropoutKey *keys)
{
    const Dataset *dataset = random_dataset("cnn");
    for (int i = 0; i < n; i++) {
        net.labels[i] = dataset->labels[order[i]];
        for (int j = 0; j < PIXELS; j++)
            net.x[i * PIXELS + j] = dataset->floats[order[i] * PIXELS + j];
        for (int j = 0; j < P; j++) { // masks count channels last
            const int unit = j % 144 * 64 + j / 144;
            net.p_scale[i * P + j] = keys == NULL ? 1 : reference_keeps(keys[0], i, unit) / 0.75;
        }
        for (int j = 0; j < H; j++)
            net.h_scale[i * H + j] = keys == NULL ? 1 : reference_keeps(keys[1], i, j) / 0.5;
    }
}

static void backward(int n, const double *params, double *grads)
{
    memset(net.dh, 0, sizeof net.dh);
    memset(net.dp, 0, sizeof net.dp);
    memset(net.da1, 0, sizeof net.da1);
    reference_linear_grad(n, H, CLASSES, net.h, params + WEIGHT4, net.dz, grads + WEIGHT4,
                          grads + BIAS4, net.dh);
    for (int i = 0; i < n * H; i++)
        net.dh[i] *= net.h[i] > 0 ? net.h_scale[i] : 0;
    reference_linear_grad(n, P, H, net.p, params + WEIGHT3, net.dh, grads + WEIGHT3, grads + BIAS3,
                          net.dp);
    for (int i = 0; i < n * P; i++)
        net.dp[i] *= net.p[i] > 0 ? net.p_scale[i] : 0;
    reference_pool_grad(n * 64, 24, net.dp, net.argmax, net.da2);
    reference_conv_grad(conv2, n, net.a1, params + WEIGHT2, net.da2, grads + WEIGHT2, grads + BIAS2,
                        net.da1);
    for (int i = 0; i < n * A1; i++)
        net.da1[i] *= net.a1[i] > 0;
    reference_conv_grad(conv1, n, net.x, params + WEIGHT1, net.da1, grads + WEIGHT1, grads + BIAS1,
                        net.dx);
}

/* Returns the loss; adds the gradient to grads unless that is NULL. */
static double reference_cnn(int n, const double *params, double *grads, const DropoutKey *keys)
{
    load_batch(n, keys);
    reference_conv(conv1, n, net.x, params + WEIGHT1, params + BIAS1, net.a1);
    for (int i = 0; i < n * A1; i++)
        net.a1[i] = fmax(net.a1[i], 0);
    reference_conv(conv2, n, net.a1, params + WEIGHT2, params + BIAS2, net.a2);
    reference_pool(n * 64, 24, net.a2, net.p, net.argmax);
    for (int i = 0; i < n * P; i++)
        net.p[i] = fmax(net.p[i], 0) * net.p_scale[i];
    reference_linear(n, P, H, net.p, params + WEIGHT3, params + BIAS3, net.h);
    for (int i = 0; i < n * H; i++)
        net.h[i] = fmax(net.h[i], 0) * net.h_scale[i];
    reference_linear(n, H, CLASSES, net.h, params + WEIGHT4, params + BIAS4, net.z);
    const double loss = reference_nll(n, CLASSES, net.z, net.labels, net.dz);
    if (grads != NULL)
        backward(n, params, grads);
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

/* Checks for each parameter the loss's slope along a random direction through all its elements. */
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
                                .first_row = 40,
                                .row_stride = 3,
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
    double *zeroed = exported_all(&subject, model->grads);
    for (size_t i = 0; i < model->numel; i++)
        assert_true(zeroed[i] == 0);
    free(zeroed);
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_gradients) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
