/* What a model and its optimizer ask of a device, and in which order: a device that only records
 * its calls. Expected are the calls of the cnn that device.h describes. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/nn/optim.h"
#include "tests/helpers/leaves.h"

enum { ROWS = 2, MAX_MEMORY = 32 };

static char calls[1 << 14];

// The arrays in the order in which the model asks for them.
static const char *const of_cnn[MAX_MEMORY] = {
    "params", "grads", "inputs",     "labels",  "targets", "y0", "dy0",
    "y1",     "dy1",   "argmax1",    "y2",      "dy2",     "y3", "dy3",
    "p",      "stats", "divergence", "exp_avg", "square",
};
static const char *const of_mlp[MAX_MEMORY] = {
    "params", "grads", "inputs", "labels", "targets", "y0", "dy0",   "y1",
    "dy1",    "y2",    "dy2",    "y3",     "dy3",     "y4", "dy4",   "y5",
    "dy5",    "y6",    "dy6",    "y7",     "dy7",     "p",  "stats", "divergence",
};
static const char *const *names = of_cnn;
static char *memory[MAX_MEMORY];
static size_t memory_bytes[MAX_MEMORY];
static int num_memory, num_released;

static void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t length = strlen(calls);
    vsnprintf(calls + length, sizeof calls - length, format, args);
    va_end(args);
}

/* Returns "params+320" for device memory, "host" for other memory, "-" for NULL. */
static const char *at(const void *pointer)
{
    static char text[8][32];
    static int next;
    char *to = text[next++ % 8];
    strcpy(to, pointer == NULL ? "-" : "host");
    for (int i = 0; i < num_memory; i++) {
        const ptrdiff_t offset = (const char *)pointer - memory[i];
        if (pointer != NULL && offset >= 0 && (size_t)offset < memory_bytes[i])
            snprintf(to, 32, offset > 0 ? "%s+%td" : "%s", names[i], offset / 4);
    }
    return to;
}

static void *note_malloc(Device *device, size_t bytes)
{
    (void)device;
    assert_true(num_memory < MAX_MEMORY);
    note("%s %zu\n", names[num_memory], bytes);
    memory_bytes[num_memory] = bytes;
    return memory[num_memory++] = calloc(bytes, 1);
}

static void note_release(Device *device, void *released)
{
    (void)device;
    free(released);
    num_released++;
}

static void note_copy(Device *device, void *to, const void *from, size_t bytes, CopyKind kind)
{
    (void)device;
    static const char *const kinds[] = { "to device", "to host", "on device" };
    note("copy %s, %s %s %zu\n", kinds[kind], at(to), at(from), bytes);
    memcpy(to, from, bytes);
}

static void note_gather(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                        float *targets)
{
    (void)device;
    note("gather %d: %s %s %s\n", batch->size, at(inputs), at(labels), at(targets));
}

static void note_gather_reserve(Device *device, int max_batch, int features)
{
    (void)device;
    note("gather_reserve %d %d\n", max_batch, features);
}

static void note_conv_reserve(Device *device, ConvShape s)
{
    (void)device;
    note("conv_reserve %d %d %d %d\n", s.in_channels, s.in_size, s.out_channels, s.kernel);
}

static void note_linear_reserve(Device *device, int max_batch, int in, int out)
{
    (void)device;
    note("linear_reserve %d %d %d\n", max_batch, in, out);
}

static bool replays;

static void note_begin_step(Device *device, const Batch *batch, uint64_t step)
{
    note("begin_step %d %d, shards %d\n", batch->size, (int)step, device->shards);
    device->replaying = replays;
}

static void note_end_step(Device *device)
{
    (void)device;
    note("end_step\n");
}

static void note_conv(Device *device, ConvShape s, int n, const float *x, const float *weight,
                      const float *bias, float *y, uint8_t *argmax)
{
    (void)device;
    note("conv_relu %d of %d: %s %s %s to %s %s\n", n, s.in_channels, at(x), at(weight), at(bias),
         at(y), at(argmax));
}

static void note_conv_grad(Device *device, ConvShape s, int n, const float *x, const float *y,
                           const uint8_t *argmax, const float *weight, float scale, float *dy,
                           float *dweight, float *dbias, float *dx)
{
    (void)device;
    note("conv_grad %d of %d: %s %s %s %s %.3f %s to %s %s %s\n", n, s.in_channels, at(x), at(y),
         at(argmax), at(weight), (double)scale, at(dy), at(dweight), at(dbias), at(dx));
}

static void note_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                        const float *weight, const float *bias, float *y)
{
    (void)device;
    note("linear%s %d %d %d: %s %s %s to %s\n", relu ? "_relu" : "", n, in, out, at(x), at(weight),
         at(bias), at(y));
}

static void note_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy)
{
    (void)device;
    note("relu_grad %zu: %s %.3f %s\n", count, at(y), (double)scale, at(dy));
}

static void note_grad_params(Device *device, int n, int in, int out, const float *x,
                             const float *dy, float *dweight, float *dbias)
{
    (void)device;
    note("grad_params %d %d %d: %s %s to %s %s\n", n, in, out, at(x), at(dy), at(dweight),
         at(dbias));
}

static void note_grad_input(Device *device, int n, int in, int out, const float *dy,
                            const float *weight, float *dx)
{
    (void)device;
    note("grad_input %d %d %d: %s %s to %s\n", n, in, out, at(dy), at(weight), at(dx));
}

static void note_dropout(Device *device, int n, int features, DropoutKey key, float *y)
{
    (void)device;
    note("dropout %d %d: seed %d step %d layer %d row %d + %d p %g %s\n", n, features,
         (int)key.seed, (int)key.step, key.layer, key.first_row, key.row_stride, (double)key.p,
         at(y));
}

static void note_nll(Device *device, int n, int classes, const float *logits, const int32_t *labels,
                     float *log_probs, float *stats)
{
    (void)device;
    note("nll %d %d: %s %s to %s %s\n", n, classes, at(logits), at(labels), at(log_probs),
         at(stats));
}

static void note_nll_grad(Device *device, int n, int classes, const float *log_probs,
                          const int32_t *labels, float *dlogits)
{
    (void)device;
    note("nll_grad %d %d: %s %s to %s\n", n, classes, at(log_probs), at(labels), at(dlogits));
}

static void note_zero(Device *device, float *array, size_t count)
{
    (void)device;
    note("zero %s %zu\n", at(array), count);
}

static void note_clip(Device *device, size_t count, float *grads, float max_norm)
{
    (void)device;
    note("clip %zu %s %g\n", count, at(grads), (double)max_norm);
}

static void note_optim(Device *device, size_t count, float *params, const float *grads,
                       const OptimRule *rule, OptimStep step)
{
    (void)device;
    note("optim %zu %s %s: kind %d lr %g momentum %g decay %g %s %s, step %d %s %s\n", count,
         at(params), at(grads), (int)rule->kind, rule->lr, rule->momentum, rule->weight_decay,
         at(rule->state[0]), at(rule->state[1]), (int)step.number, at(step.loss),
         at(step.divergence));
}

static const DeviceOps ops = {
    .malloc = note_malloc,
    .release = note_release,
    .copy = note_copy,
    .gather = note_gather,
    .gather_reserve = note_gather_reserve,
    .conv_reserve = note_conv_reserve,
    .linear_reserve = note_linear_reserve,
    .begin_step = note_begin_step,
    .end_step = note_end_step,
    .conv_relu = note_conv,
    .conv_grad = note_conv_grad,
    .linear = note_linear,
    .relu_grad = note_relu_grad,
    .linear_grad_params = note_grad_params,
    .linear_grad_input = note_grad_input,
    .dropout = note_dropout,
    .nll = note_nll,
    .nll_grad = note_nll_grad,
    .zero = note_zero,
    .clip_grads = note_clip,
    .optim = note_optim,
};

static void assert_calls(const char *expected)
{
    const char *a = calls, *b = expected;
    for (; *a != '\0' || *b != '\0'; a += strcspn(a, "\n") + 1, b += strcspn(b, "\n") + 1) {
        const int of_a = (int)strcspn(a, "\n"), of_b = (int)strcspn(b, "\n");
        if (of_a != of_b || memcmp(a, b, (size_t)of_a) != 0)
            fail_msg("\"%.*s\" instead of \"%.*s\"", of_a, a, of_b, b);
    }
    calls[0] = '\0';
}

static void move_bias(void *context)
{
    const Model *model = context;
    float bias[10];
    model_export(model, 7, model->params, bias);
    model_import(model, 7, bias, model->params);
}

static void test_calls(void **state)
{
    (void)state;
    Args args;
    args_defaults(&args, "cnn");
    args.optimizer = OPTIM_ADAMW;
    args.lr = 0.25;
    args.momentum = 0.5;
    args.weight_decay = 0.125;
    args.clip_norm = 2;
    args.seed = 9;
    Device device = { .name = "notes", .threads = 1, .ops = &ops, .place.on_gpu = true };
    Model model;
    Optimizer optim;
    Rng rng;
    rng_seed(&rng, 0);
    model_init(&model, &args, ROWS, &rng, &device);
    assert_calls("params 4799528\n" // 1,199,882 floats; of the gradients one more
                 "grads 4799532\n"
                 "inputs 6272\nlabels 8\ntargets 8\n"
                 "y0 173056\ndy0 173056\nconv_reserve 1 28 32 3\n"
                 "y1 73728\ndy1 73728\nargmax1 18432\nconv_reserve 32 26 64 3\n"
                 "y2 1024\ndy2 1024\nlinear_reserve 2 9216 128\n"
                 "y3 80\ndy3 80\nlinear_reserve 2 128 10\n"
                 "p 80\nstats 8\ndivergence 8\n"
                 "gather_reserve 2 784\n"
                 "copy to device, params host 1152\n"
                 "copy to device, params+288 host 128\n"
                 "copy to device, params+320 host 73728\n"
                 "copy to device, params+18752 host 256\n"
                 "copy to device, params+18816 host 4718592\n"
                 "copy to device, params+1198464 host 512\n"
                 "copy to device, params+1198592 host 5120\n"
                 "copy to device, params+1199872 host 40\n");
    optim_init(&optim, &args, &model, 1);
    assert_calls("exp_avg 4799528\nsquare 4799528\n");

    const Dataset dataset = { .features = 784, .num_classes = 10, .shards = 8 };
    const Batch batch = { .dataset = &dataset, .size = ROWS, .first_row = 3, .row_stride = 4 };
    model.step = 6;
    model_zero_grad(&model);
    model_forward(&model, &batch);
    assert_calls("zero grads 1199882\n"
                 "begin_step 2 6, shards 2\n"
                 "gather 2: inputs labels targets\n"
                 "conv_relu 2 of 1: inputs params params+288 to y0 -\n"
                 "conv_relu 2 of 32: y0 params+320 params+18752 to y1 argmax1\n"
                 "dropout 2 9216: seed 9 step 6 layer 1 row 3 + 4 p 0.25 y1\n"
                 "linear_relu 2 9216 128: y1 params+18816 params+1198464 to y2\n"
                 "dropout 2 128: seed 9 step 6 layer 2 row 3 + 4 p 0.5 y2\n"
                 "linear 2 128 10: y2 params+1198592 params+1199872 to y3\n"
                 "nll 2 10: y3 labels to p stats\n");
    model_backward(&model);
    assert_calls(
        "nll_grad 2 10: p labels to dy3\n"
        "grad_params 2 128 10: y2 dy3 to grads+1198592 grads+1199872\n"
        "grad_input 2 128 10: dy3 params+1198592 to dy2\n"
        "relu_grad 256: y2 2.000 dy2\n"
        "grad_params 2 9216 128: y1 dy2 to grads+18816 grads+1198464\n"
        "grad_input 2 9216 128: dy2 params+18816 to dy1\n"
        "conv_grad 2 of 32: y0 y1 argmax1 params+320 1.333 dy1 to grads+320 grads+18752 dy0\n"
        "conv_grad 2 of 1: inputs y0 - params 1.000 dy0 to grads grads+288 -\n");
    optim_step(&optim);
    assert_calls(
        "clip 1199882 grads 2\n"
        "optim 1199882 params grads: kind 2 lr 0.25 momentum 0.5 decay 0.125 exp_avg square, "
        "step 7 stats divergence\n"
        "end_step\n");

    replays = true; // from begin_step on the device does it all
    model_forward(&model, &batch);
    model_backward(&model);
    optim_step(&optim);
    assert_calls("begin_step 2 7, shards 2\nend_step\n");
    replays = device.replaying = false;
    assert_int_equal(model.step, 8);

    model_eval(&model); // begins no step and drops nothing out
    model_forward(&model, &batch);
    assert_calls("gather 2: inputs labels targets\n"
                 "conv_relu 2 of 1: inputs params params+288 to y0 -\n"
                 "conv_relu 2 of 32: y0 params+320 params+18752 to y1 argmax1\n"
                 "linear_relu 2 9216 128: y1 params+18816 params+1198464 to y2\n"
                 "linear 2 128 10: y2 params+1198592 params+1199872 to y3\n"
                 "nll 2 10: y3 labels to p stats\n");
    model_loss(&model);
    model_correct(&model);
    model_divergence(&model);
    float bias[10];
    model_export(&model, 7, model.params, bias);
    assert_calls("copy to host, host stats 4\ncopy to host, host stats+1 4\n"
                 "copy to host, host divergence 8\ncopy to host, host params+1199872 40\n");
    assert_leaves_nothing(move_bias, &model);
    calls[0] = '\0';
    optim_free(&optim);
    model_free(&model);
    assert_int_equal(num_released, num_memory);
}

/* Eight equal layers, of which the last has no relu. */
static void test_calls_of_mlp(void **state)
{
    (void)state;
    enum { SIDE = 784, NUMEL = SIDE * SIDE + SIDE };
    char expected[4096] = "begin_step 2 0, shards 0\ngather 2: inputs labels targets\n",
         from[32] = "inputs";
    Args args;
    args_defaults(&args, "mlp");
    Device device = { .name = "notes", .threads = 1, .ops = &ops };
    Model model;
    Rng rng;
    rng_seed(&rng, 0);
    num_memory = num_released = 0;
    names = of_mlp;
    model_init(&model, &args, ROWS, &rng, &device);
    calls[0] = '\0';
    const Dataset dataset = { .features = SIDE, .num_classes = 10 };
    model_forward(&model, &(Batch){ .dataset = &dataset, .size = ROWS, .row_stride = 1 });
    for (int i = 0; i < 8; i++) {
        char weight[32] = "params";
        if (i > 0)
            snprintf(weight, sizeof weight, "params+%d", i * NUMEL);
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected),
                 "linear%s 2 784 784: %s %s params+%d to y%d\n", i < 7 ? "_relu" : "", from, weight,
                 i * NUMEL + SIDE * SIDE, i);
        snprintf(from, sizeof from, "y%d", i);
    }
    strcat(expected, "nll 2 784: y7 labels to p stats\n");
    assert_calls(expected);
    model_free(&model);
    assert_int_equal(num_released, num_memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_calls),
                                        cmocka_unit_test(test_calls_of_mlp) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
