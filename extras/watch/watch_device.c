/*
 * The device's table is replaced by one whose entries call it between span_begin and span_end.
 *
 * A call does not name the layer it computes: that follows from the address of its weight or
 * gradient, or, without one, from the output, which an earlier call of the same layer has written.
 * Whatever is computed outside a step is evaluation.
 */
#include "extras/watch/watch_device.h"

#include "common/nn/device.h"
#include "extras/watch/journal.h"
#include "extras/watch/span.h"

static const Model *watched; // NULL if none
static const DeviceOps *inner; // the model's device's own table
static bool in_step;
static struct {
    const float *y;
    const char *name;
} output[MODEL_MAX_PARAMETERS]; // each layer's output, at its weight's place

/* Returns the name of the layer with this weight or bias, or with this gradient. */
static const char *layer_of(const float *array)
{
    const bool is_param = array >= watched->params && array < watched->params + watched->numel;
    const size_t offset = (size_t)(array - (is_param ? watched->params : watched->grads));
    for (int i = 0; i < watched->num_parameters; i += 2)
        if (watched->parameter[i].offset == offset)
            return watched->parameter[i].name;
    return "layer";
}

/* Begins a span named by the layer's weight; later calls find the layer by its output, too. */
static void begin_layer(const float *weight, const float *y)
{
    const char *name = layer_of(weight);
    int i = 0;
    while (i < MODEL_MAX_PARAMETERS - 1 && output[i].name != NULL && output[i].name != name)
        i++;
    output[i].y = y;
    output[i].name = name;
    span_begin(SPAN_FORWARD, name);
}

static const char *layer_with_output(const float *y)
{
    for (int i = 0; i < MODEL_MAX_PARAMETERS; i++)
        if (output[i].y == y && output[i].name != NULL)
            return output[i].name;
    return "layer";
}

static void watch_copy(Device *device, void *to, const void *from, size_t bytes, CopyKind kind)
{
    span_close();
    inner->copy(device, to, from, bytes, kind);
    span_continue_evaluation(); // the host has waited for the copy
}

static void watch_gather(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                         float *targets)
{
    if (!in_step)
        span_begin_evaluation();
    journal_batch(batch, in_step);
    span_begin(SPAN_DATA, "gather");
    inner->gather(device, batch, inputs, labels, targets);
    span_end();
}

static void watch_begin_step(Device *device, const Batch *batch, uint64_t step)
{
    in_step = true;
    if (inner->begin_step != NULL)
        inner->begin_step(device, batch, step);
}

static void watch_end_step(Device *device)
{
    if (inner->end_step != NULL)
        inner->end_step(device);
    span_close();
    in_step = false;
}

static void watch_replay(Device *device)
{
    journal_note("replay");
    span_close();
    span_begin(SPAN_GRAPH, "step (graph)");
    inner->replay(device);
    span_end();
}

static void watch_conv_relu(Device *device, ConvShape shape, int n, const float *x,
                            const float *weight, const float *bias, float *y, uint8_t *argmax)
{
    begin_layer(weight, y);
    inner->conv_relu(device, shape, n, x, weight, bias, y, argmax);
    span_end();
}

static void watch_conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                            const uint8_t *argmax, const float *weight, float scale, float *dy,
                            float *dweight, float *dbias, float *dx)
{
    span_begin(SPAN_BACKWARD, layer_of(weight));
    journal_note("gradient %s", layer_of(weight));
    inner->conv_grad(device, shape, n, x, y, argmax, weight, scale, dy, dweight, dbias, dx);
    span_end();
}

static void watch_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                         const float *weight, const float *bias, float *y)
{
    begin_layer(weight, y);
    inner->linear(device, n, in, out, relu, x, weight, bias, y);
    span_end();
}

static void watch_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy)
{
    span_begin(SPAN_BACKWARD, layer_with_output(y));
    inner->relu_grad(device, count, y, scale, dy);
    span_end();
}

static void watch_linear_grad_params(Device *device, int n, int in, int out, const float *x,
                                     const float *dy, float *dweight, float *dbias)
{
    span_begin(SPAN_BACKWARD, layer_of(dweight));
    journal_note("gradient %s", layer_of(dweight));
    inner->linear_grad_params(device, n, in, out, x, dy, dweight, dbias);
    span_end();
}

static void watch_linear_grad_input(Device *device, int n, int in, int out, const float *dy,
                                    const float *weight, float *dx)
{
    span_begin(SPAN_BACKWARD, layer_of(weight));
    inner->linear_grad_input(device, n, in, out, dy, weight, dx);
    span_end();
}

static void watch_dropout(Device *device, int n, int features, DropoutKey key, float *y)
{
    span_begin(SPAN_FORWARD, layer_with_output(y));
    journal_dropout(layer_with_output(y), &key);
    inner->dropout(device, n, features, key, y);
    span_end();
}

static void watch_nll(Device *device, int n, int classes, const float *logits,
                      const int32_t *labels, float *log_probs, float *stats)
{
    span_begin(SPAN_FORWARD, "loss");
    journal_note("forward");
    inner->nll(device, n, classes, logits, labels, log_probs, stats);
    span_end();
}

static void watch_nll_grad(Device *device, int n, int classes, const float *log_probs,
                           const int32_t *labels, float *dlogits)
{
    span_begin(SPAN_BACKWARD, "loss");
    journal_note("backward");
    inner->nll_grad(device, n, classes, log_probs, labels, dlogits);
    span_end();
}

static void watch_mse(Device *device, int n, const float *y, const float *targets, float *stats)
{
    span_begin(SPAN_FORWARD, "loss");
    journal_note("forward");
    inner->mse(device, n, y, targets, stats);
    span_end();
}

static void watch_mse_grad(Device *device, int n, const float *y, const float *targets, float *dy)
{
    span_begin(SPAN_BACKWARD, "loss");
    journal_note("backward");
    inner->mse_grad(device, n, y, targets, dy);
    span_end();
}

static void watch_zero(Device *device, float *array, size_t count)
{
    span_end_evaluation();
    span_begin(SPAN_OPTIMIZER, "zero_grad");
    journal_note("zero_grad");
    inner->zero(device, array, count);
    span_end();
}

static void watch_clip_grads(Device *device, size_t count, float *grads, float max_norm)
{
    span_begin(SPAN_OPTIMIZER, "clip_grad_norm");
    inner->clip_grads(device, count, grads, max_norm);
    span_end();
}

static void watch_optim(Device *device, size_t count, float *params, const float *grads,
                        const OptimRule *rule, OptimStep step)
{
    span_begin(SPAN_OPTIMIZER, "optim_step");
    journal_note("optim_step lr=%g", rule->lr * lr_factor(&step.schedule, step.number));
    inner->optim(device, count, params, grads, rule, step);
    span_end();
}

void watch_device(const Model *model)
{
    static DeviceOps ops;
    CHECK(watched == NULL, "a device is watched already");
    watched = model;
    inner = model->device->ops;
    in_step = false;
    memset(output, 0, sizeof output);
    ops = *inner; // unwatched entries stay unchanged
    ops.copy = watch_copy;
    ops.gather = watch_gather;
    ops.begin_step = watch_begin_step;
    ops.end_step = watch_end_step;
    ops.replay = watch_replay;
    ops.conv_relu = watch_conv_relu;
    ops.conv_grad = watch_conv_grad;
    ops.linear = watch_linear;
    ops.relu_grad = watch_relu_grad;
    ops.linear_grad_params = watch_linear_grad_params;
    ops.linear_grad_input = watch_linear_grad_input;
    ops.dropout = watch_dropout;
    ops.nll = watch_nll;
    ops.nll_grad = watch_nll_grad;
    ops.mse = watch_mse;
    ops.mse_grad = watch_mse_grad;
    ops.zero = watch_zero;
    ops.clip_grads = watch_clip_grads;
    ops.optim = watch_optim;
    model->device->ops = &ops;
    span_timing = true;
}

void unwatch_device(void)
{
    if (watched == NULL)
        return;
    span_end_evaluation();
    span_close();
    watched->device->ops = inner;
    watched = NULL;
    span_timing = false;
}
