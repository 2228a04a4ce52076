/*
 * The CPU's kernels compute a row bitwise identically whether it is alone or among others, and
 * wherever in the batch. Otherwise the number of ranks that share a batch would matter.
 */
#include "tests/common/nn/kernels.h"

enum { ROWS = 13 }; // not a multiple of a tile's rows

/* One kernel's work on n rows: x and, in backward passes, y and dy are theirs; writes out. */
typedef void Kernel(Device *device, const void *shape, int n, const float *x, const float *y,
                    const float *dy, float *out);

static void assert_alone(Kernel *kernel, const void *shape, size_t x_numel, size_t y_numel,
                         size_t out_numel)
{
    const float *x = random_floats(ROWS * x_numel), *y = random_floats(ROWS * y_numel);
    const float *dy = random_floats(ROWS * y_numel);
    float *reversed[3] = { zeros(ROWS * x_numel), zeros(ROWS * y_numel), zeros(ROWS * y_numel) };
    for (int row = 0; row < ROWS; row++) {
        const int to = ROWS - 1 - row;
        memcpy(reversed[0] + to * x_numel, x + row * x_numel, x_numel * sizeof(float));
        memcpy(reversed[1] + to * y_numel, y + row * y_numel, y_numel * sizeof(float));
        memcpy(reversed[2] + to * y_numel, dy + row * y_numel, y_numel * sizeof(float));
    }
    for (int i = 0; i < MAX_THREADS; i++) {
        float *together = zeros(ROWS * out_numel), *back = zeros(ROWS * out_numel);
        kernel(&devices[i], shape, ROWS, x, y, dy, together);
        kernel(&devices[i], shape, ROWS, reversed[0], reversed[1], reversed[2], back);
        for (int row = 0; row < ROWS; row++) {
            float *alone = zeros(out_numel);
            kernel(&devices[i], shape, 1, x + row * x_numel, y + row * y_numel, dy + row * y_numel,
                   alone);
            const size_t bytes = out_numel * sizeof(float);
            assert_same_bits(alone, together + row * out_numel, bytes);
            assert_same_bits(alone, back + (ROWS - 1 - row) * out_numel, bytes);
        }
    }
}

/* A layer's parameters, the same in every call of a test. */
static float *weight, *bias, *unused;
static uint8_t *argmax;

static void conv(Device *device, const void *shape, int n, const float *x, const float *y,
                 const float *dy, float *out)
{
    (void)y, (void)dy;
    device->ops->conv_relu(device, *(const ConvShape *)shape, n, x, weight, bias, out, NULL);
}

static void conv_pool(Device *device, const void *shape, int n, const float *x, const float *y,
                      const float *dy, float *out)
{
    (void)y, (void)dy;
    device->ops->conv_relu(device, *(const ConvShape *)shape, n, x, weight, bias, out, argmax);
}

static void conv_grad(Device *device, const void *shape, int n, const float *x, const float *y,
                      const float *dy, float *out)
{
    const ConvShape *s = shape;
    float *used_up =
        copy_of(dy, (size_t)n * s->out_channels * conv_out_size(*s) * conv_out_size(*s));
    device->ops->conv_grad(device, *s, n, x, y, NULL, weight, 2, used_up, unused, unused, out);
}

/* Derives the pooled units' corners from dy, so that they depend only on the row. */
static void conv_pool_grad(Device *device, const void *shape, int n, const float *x, const float *y,
                           const float *dy, float *out)
{
    const ConvShape *s = shape;
    const int size = conv_out_size(*s) / 2;
    const size_t numel = (size_t)n * s->out_channels * size * size;
    float *used_up = copy_of(dy, numel);
    for (size_t i = 0; i < numel; i++)
        argmax[i] = (uint8_t)((int)(dy[i] * 100 + 100) % 4);
    device->ops->conv_grad(device, *s, n, x, y, argmax, weight, 2, used_up, unused, unused, out);
}

static void test_convolutions(void **state)
{
    (void)state;
    static const ConvShape shapes[] = {
        { 1, 28, 32, 3 }, { 32, 26, 64, 3 }, { 5, 9, 7, 3 }, { 3, 7, 5, 2 }
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const ConvShape *s = &shapes[i];
        const size_t size = conv_out_size(*s), pooled = size / 2, channels = s->out_channels;
        const size_t x_numel = (size_t)s->in_channels * s->in_size * s->in_size;
        const size_t y_numel = channels * size * size, pooled_numel = channels * pooled * pooled;
        weight = random_floats(channels * conv_filter_numel(*s));
        bias = random_floats(channels);
        unused = zeros(channels * conv_filter_numel(*s));
        argmax = keep(ROWS * pooled_numel, 1);
        assert_alone(conv, s, x_numel, 0, y_numel);
        assert_alone(conv_pool, s, x_numel, 0, pooled_numel);
        assert_alone(conv_grad, s, x_numel, y_numel, x_numel);
        assert_alone(conv_pool_grad, s, x_numel, pooled_numel, x_numel);
        forget(NULL);
    }
}

typedef struct {
    int in, out;
} LinearShape;

static void linear(Device *device, const void *shape, int n, const float *x, const float *y,
                   const float *dy, float *out)
{
    (void)y, (void)dy;
    const LinearShape *s = shape;
    device->ops->linear(device, n, s->in, s->out, true, x, weight, bias, out);
}

static void linear_grad(Device *device, const void *shape, int n, const float *x, const float *y,
                        const float *dy, float *out)
{
    (void)x;
    const LinearShape *s = shape;
    float *gated = copy_of(dy, (size_t)n * s->out);
    device->ops->relu_grad(device, (size_t)n * s->out, y, 2, gated);
    device->ops->linear_grad_input(device, n, s->in, s->out, gated, weight, out);
}

static void log_softmax(Device *device, const void *shape, int n, const float *x, const float *y,
                        const float *dy, float *out)
{
    (void)y, (void)dy;
    const int32_t labels[ROWS] = { 0 };
    float stats[2];
    device->ops->nll(device, n, ((const LinearShape *)shape)->in, x, labels, out, stats);
}

static void test_linear_layers(void **state)
{
    (void)state;
    static const LinearShape shapes[] = { { 9216, 128 }, { 128, 10 }, { 20, 1 }, { 1037, 13 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t in = shapes[i].in, out = shapes[i].out;
        weight = random_floats(in * out);
        bias = random_floats(out);
        assert_alone(linear, &shapes[i], in, 0, out);
        assert_alone(linear_grad, &shapes[i], in, out, in);
        assert_alone(log_softmax, &shapes[i], in, 0, in);
        forget(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_convolutions, forget),
        cmocka_unit_test_teardown(test_linear_layers, forget),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
