/*
 * The buffers are below the model: a table of kernels that puts them in the place of the model's
 * own arrays wraps the device's table. The model still passes the addresses of its arrays, which
 * are released, so nothing may use them: which buffer is meant follows from the layer alone.
 */
#include "beyond/recompute/recompute.h"

#include "common/base/log.h"

static Recompute *current; // one per process; the device's table may be wrapped again
static DeviceOps kept_ops;

/* ---- the buffers ---- */

static bool is_border(const Recompute *kept, int layer)
{
    return (layer + 1) % kept->segment_layers == 0 || layer + 1 == kept->num_layers;
}

static ActivationBuffer *buffer_of(Recompute *kept, int layer)
{
    if (is_border(kept, layer))
        return &kept->border[layer / kept->segment_layers];
    return &kept->shared[layer % kept->segment_layers];
}

static float *output_now(void)
{
    return buffer_of(current, current->layer)->output;
}

/* Returns a layer's input. The first layer reads the batch, whose array the model still has. */
static const float *input_of(Recompute *kept, int layer)
{
    return layer > 0 ? buffer_of(kept, layer - 1)->output : kept->call[0].x;
}

/* ---- the kernels ---- */

/* Computes a layer without its dropout, which is a kernel of its own. */
static void compute(Recompute *kept, int layer)
{
    Device *device = kept->model->device;
    const LayerCall *call = &kept->call[layer];
    const ActivationBuffer *to = buffer_of(kept, layer);
    const float *x = input_of(kept, layer);
    if (call->is_conv)
        kept->inner->conv_relu(device, call->shape, call->n, x, call->weight, call->bias,
                               to->output, call->argmax != NULL ? to->argmax : NULL);
    else
        kept->inner->linear(device, call->n, call->in, call->out, call->relu, x, call->weight,
                            call->bias, to->output);
    if (!is_border(kept, layer))
        kept->segment = layer / kept->segment_layers;
}

static LayerCall conv_call(ConvShape shape, int n, const float *x, const float *weight,
                           const float *bias, float *y, uint8_t *argmax)
{
    const int size = conv_out_size(shape) / (argmax != NULL ? 2 : 1);
    return (LayerCall){ .is_conv = true,
                        .shape = shape,
                        .n = n,
                        .out = size * size * shape.out_channels,
                        .x = x,
                        .weight = weight,
                        .bias = bias,
                        .y = y,
                        .argmax = argmax };
}

static void kept_conv_relu(Device *device, ConvShape shape, int n, const float *x,
                           const float *weight, const float *bias, float *y, uint8_t *argmax)
{
    (void)device;
    current->call[current->layer] = conv_call(shape, n, x, weight, bias, y, argmax);
    compute(current, current->layer);
}

static void kept_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                        const float *weight, const float *bias, float *y)
{
    (void)device;
    current->call[current->layer] = (LayerCall){
        .relu = relu, .n = n, .in = in, .out = out, .x = x, .weight = weight, .bias = bias, .y = y
    };
    compute(current, current->layer);
}

static void kept_dropout(Device *device, int n, int features, DropoutKey key, float *y)
{
    (void)y;
    current->call[current->layer].key = key;
    current->inner->dropout(device, n, features, key, output_now());
}

static void kept_conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                           const uint8_t *argmax, const float *weight, float scale, float *dy,
                           float *dweight, float *dbias, float *dx)
{
    (void)x, (void)y;
    const ActivationBuffer *from = buffer_of(current, current->layer);
    current->inner->conv_grad(device, shape, n, input_of(current, current->layer), from->output,
                              argmax != NULL ? from->argmax : NULL, weight, scale, dy, dweight,
                              dbias, dx);
}

static void kept_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy)
{
    (void)y;
    current->inner->relu_grad(device, count, output_now(), scale, dy);
}

static void kept_grad_params(Device *device, int n, int in, int out, const float *x,
                             const float *dy, float *dweight, float *dbias)
{
    (void)x;
    current->inner->linear_grad_params(device, n, in, out, input_of(current, current->layer), dy,
                                       dweight, dbias);
}

/* Returns what the losses read between the passes: the last layer's output, which is a border. */
static float *last_output(void)
{
    return buffer_of(current, current->num_layers - 1)->output;
}

static void kept_nll(Device *device, int n, int classes, const float *logits, const int32_t *labels,
                     float *log_probs, float *stats)
{
    (void)logits;
    current->inner->nll(device, n, classes, last_output(), labels, log_probs, stats);
}

static void kept_mse(Device *device, int n, const float *y, const float *targets, float *stats)
{
    (void)y;
    current->inner->mse(device, n, last_output(), targets, stats);
}

static void kept_mse_grad(Device *device, int n, const float *y, const float *targets, float *dy)
{
    (void)y;
    current->inner->mse_grad(device, n, last_output(), targets, dy);
}

/* ---- the model's arrays, found by a forward pass that computes nothing ---- */

static void see_conv(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                     const float *bias, float *y, uint8_t *argmax)
{
    (void)device;
    current->call[current->num_layers++] = conv_call(shape, n, x, weight, bias, y, argmax);
}

static void see_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                       const float *weight, const float *bias, float *y)
{
    (void)device, (void)in, (void)relu, (void)x, (void)weight, (void)bias;
    current->call[current->num_layers++] = (LayerCall){ .n = n, .out = out, .y = y };
}

static void see_dropout(Device *device, int n, int features, DropoutKey key, float *y)
{
    (void)device, (void)n, (void)features, (void)key, (void)y;
}

static void see_gather(Device *device, const Batch *batch, float *inputs, int32_t *labels,
                       float *targets)
{
    (void)device, (void)batch, (void)inputs, (void)labels, (void)targets;
}

static void see_nll(Device *device, int n, int classes, const float *logits, const int32_t *labels,
                    float *log_probs, float *stats)
{
    (void)device, (void)n, (void)classes, (void)logits, (void)labels, (void)log_probs, (void)stats;
}

static void see_mse(Device *device, int n, const float *y, const float *targets, float *stats)
{
    (void)device, (void)n, (void)y, (void)targets, (void)stats;
}

static void see_layers(Recompute *kept, const Dataset *dataset)
{
    static const DeviceOps seeing = { .gather = see_gather,
                                      .conv_relu = see_conv,
                                      .linear = see_linear,
                                      .dropout = see_dropout,
                                      .nll = see_nll,
                                      .mse = see_mse };
    Device *device = kept->model->device;
    const Batch batch = { .dataset = dataset, .size = kept->model->max_batch, .row_stride = 1 };
    device->ops = &seeing;
    model_forward(kept->model, &batch);
    device->ops = kept->inner;
}

/* ---- init and free ---- */

/* Releases it, and removes it from the list of what model_free releases. */
static void release_array(Model *model, void *array)
{
    for (int i = 0; array != NULL && i < model->num_memory; i++)
        if (model->memory[i] == array)
            model->memory[i] = NULL;
    device_release(model->device, array);
}

/* Enlarges the buffer if this layer needs more; a shared one suffices for its largest layer. */
static void reserve(ActivationBuffer *buffer, const LayerCall *call)
{
    const size_t numel = (size_t)call->n * (size_t)call->out;
    if (buffer->output_bytes < numel * sizeof(float))
        buffer->output_bytes = numel * sizeof(float);
    if (call->argmax != NULL && buffer->argmax_bytes < numel)
        buffer->argmax_bytes = numel;
}

static void allocate_buffer(Device *device, ActivationBuffer *buffer)
{
    if (buffer->output_bytes > 0)
        buffer->output = device_malloc(device, buffer->output_bytes);
    if (buffer->argmax_bytes > 0)
        buffer->argmax = device_malloc(device, buffer->argmax_bytes);
}

static void wrap_kernels(Recompute *kept)
{
    kept_ops = *kept->inner;
    kept_ops.conv_relu = kept_conv_relu;
    kept_ops.conv_grad = kept_conv_grad;
    kept_ops.linear = kept_linear;
    kept_ops.relu_grad = kept_relu_grad;
    kept_ops.linear_grad_params = kept_grad_params;
    kept_ops.dropout = kept_dropout;
    kept_ops.nll = kept_nll;
    kept_ops.mse = kept_mse;
    kept_ops.mse_grad = kept_mse_grad;
    kept->model->device->ops = &kept_ops;
}

void recompute_init(Recompute *kept, Model *model, const Dataset *dataset, int segment_layers)
{
    Device *device = model->device;
    if (device->place.on_gpu)
        usage_error("this aside wraps the kernels of a CPU: --device cpu");
    CHECK(segment_layers > 0, "a segment of %d layers: it needs at least one", segment_layers);
    *kept = (Recompute){
        .segment = -1, .inner = device->ops, .model = model, .segment_layers = segment_layers
    };
    current = kept;
    see_layers(kept, dataset);
    for (int i = 0; i < kept->num_layers; i++) {
        release_array(model, kept->call[i].y);
        release_array(model, kept->call[i].argmax);
        reserve(buffer_of(kept, i), &kept->call[i]);
    }
    for (int i = 0; i < kept->num_layers; i++) {
        allocate_buffer(device, &kept->border[i]);
        allocate_buffer(device, &kept->shared[i]);
    }
    wrap_kernels(kept);
}

void recompute_free(Recompute *kept)
{
    Device *device = kept->model->device;
    device->ops = kept->inner;
    for (int i = 0; i < kept->num_layers; i++) {
        device_release(device, kept->border[i].output);
        device_release(device, kept->border[i].argmax);
        device_release(device, kept->shared[i].output);
        device_release(device, kept->shared[i].argmax);
    }
}

void recompute_begin_layer(Recompute *kept, int layer)
{
    kept->layer = layer;
}

void recompute_layer(Recompute *kept, int layer)
{
    const LayerCall *call = &kept->call[layer];
    compute(kept, layer);
    if (call->key.p > 0) // the mask depends on the key alone, so it is the same
        kept->inner->dropout(kept->model->device, call->n, call->out, call->key,
                             buffer_of(kept, layer)->output);
}
