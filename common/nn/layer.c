/*
 * Which kernels each kind of layer calls. A layer keeps its outputs for the backward pass; the next
 * layer writes their gradients to doutput, and the gradient of its inputs goes to the doutput of
 * the previous layer.
 */
#include "common/nn/layer.h"

void layer_shapes(const LayerSpec *spec, Tensor *weight, Tensor *bias)
{
    const ConvShape conv = spec->conv;
    const size_t out = spec->kind == LAYER_LINEAR ? spec->out : conv.out_channels;
    if (spec->kind == LAYER_LINEAR)
        *weight = (Tensor){ .shape = { out, spec->in }, .ndim = 2, .numel = out * spec->in };
    else
        *weight = (Tensor){ .shape = { out, conv.in_channels, conv.kernel, conv.kernel },
                            .ndim = 4,
                            .numel = out * conv.in_channels * conv.kernel * conv.kernel };
    *bias = (Tensor){ .shape = { out }, .ndim = 1, .numel = out };
    weight->name = spec->weight_name;
    bias->name = spec->bias_name;
}

static int num_features(const LayerSpec *spec)
{
    if (spec->kind == LAYER_LINEAR)
        return spec->out;
    const int size = conv_out_size(spec->conv) / (spec->kind == LAYER_CONV_POOL ? 2 : 1);
    return spec->conv.out_channels * size * size;
}

void layer_init(Layer *layer, const LayerSpec *spec, int max_batch, Device *device)
{
    *layer = (Layer){ .spec = spec, .features = num_features(spec), .scale = 1 };
    const size_t numel = (size_t)max_batch * layer->features;
    layer->output = device_malloc(device, numel * sizeof(float));
    layer->doutput = device_malloc(device, numel * sizeof(float));
    if (spec->kind == LAYER_CONV_POOL)
        layer->argmax = device_malloc(device, numel);
    if (spec->kind != LAYER_LINEAR)
        device->ops->conv_reserve(device, spec->conv);
    else if (device->ops->linear_reserve != NULL)
        device->ops->linear_reserve(device, max_batch, spec->in, spec->out);
}

void layer_free(Layer *layer, Device *device)
{
    device_release(device, layer->output);
    device_release(device, layer->doutput);
    if (layer->argmax != NULL)
        device_release(device, layer->argmax);
}

void layer_forward(Layer *layer, Device *device, int n, const float *input, DropoutKey key)
{
    const LayerSpec *spec = layer->spec;
    const DeviceOps *ops = device->ops;
    switch (spec->kind) {
    case LAYER_CONV:
        ops->conv_relu(device, spec->conv, n, input, layer->weight, layer->bias, layer->output);
        break;
    case LAYER_CONV_POOL:
        ops->conv_relu_pool(device, spec->conv, n, input, layer->weight, layer->bias, layer->output,
                            layer->argmax);
        break;
    case LAYER_LINEAR:
        ops->linear(device, n, spec->in, spec->out, spec->relu, input, layer->weight, layer->bias,
                    layer->output);
        break;
    }

    layer->scale = 1 / (1 - key.p);
    if (key.p > 0)
        ops->dropout(device, n, layer->features, key, layer->output);
}

void layer_grad_params(Layer *layer, Device *device, int n, const float *input, float *dinput)
{
    const LayerSpec *spec = layer->spec;
    const DeviceOps *ops = device->ops;
    switch (spec->kind) {
    case LAYER_CONV:
    case LAYER_CONV_POOL:
        ops->conv_grad(device, spec->conv, n, input, layer->output, layer->argmax, layer->weight,
                       layer->scale, layer->doutput, layer->dweight, layer->dbias, dinput);
        break;
    case LAYER_LINEAR:
        if (spec->relu)
            ops->relu_grad(device, (size_t)n * layer->features, layer->output, layer->scale,
                           layer->doutput);
        ops->linear_grad_params(device, n, spec->in, spec->out, input, layer->doutput,
                                layer->dweight, layer->dbias);
        break;
    }
}

void layer_grad_input(Layer *layer, Device *device, int n, float *dinput)
{
    const LayerSpec *spec = layer->spec;
    if (spec->kind == LAYER_LINEAR && dinput != NULL)
        device->ops->linear_grad_input(device, n, spec->in, spec->out, layer->doutput,
                                       layer->weight, dinput);
}
