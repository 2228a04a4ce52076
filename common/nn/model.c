/* The models, as tables of layers. The parameters are one array in the order of the layers,
 * weight before bias, as PyTorch's state_dict lists them, and so are the gradients. A layer keeps
 * its outputs for the backward pass; the next layer writes their gradients to doutput, and the
 * gradient of its inputs goes to the doutput of the previous layer. */
#include "common/nn/model.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

/* ---- a layer: a convolution or a linear map, with the relu, pooling and dropout after it ---- */

typedef enum { LAYER_CONV, LAYER_CONV_POOL, LAYER_LINEAR } LayerKind;

typedef struct {
    LayerKind kind;
    const char *weight_name, *bias_name; // PyTorch's
    ConvShape conv; // for the two convolutions, which always have relu
    int in, out; // numbers per row; `in` only of a linear layer
    bool relu; // for a linear layer
    float dropout; // share of its outputs dropped in training
} LayerSpec;

/* A layer at work; all pointers are to device memory. */
typedef struct Layer {
    const LayerSpec *spec;
    float *weight, *bias, *dweight, *dbias; // slices of the model's arrays
    const float *input; // the output of the previous layer, or the batch
    float *dinput; // its doutput; NULL for the batch, which needs no gradient
    float *output, *doutput; // [max_batch][spec->out]
    uint8_t *argmax; // [max_batch][spec->out]; NULL where there is no pooling
    float scale; // factor of the units kept by dropout in the last forward pass
} Layer;

static void layer_forward(Layer *layer, Device *device, int n, DropoutKey key)
{
    const LayerSpec *spec = layer->spec;
    if (spec->kind == LAYER_LINEAR)
        device->ops->linear(device, n, spec->in, spec->out, spec->relu, layer->input, layer->weight,
                            layer->bias, layer->output);
    else
        device->ops->conv_relu(device, spec->conv, n, layer->input, layer->weight, layer->bias,
                               layer->output, layer->argmax);
    layer->scale = 1 / (1 - key.p);
    if (key.p > 0)
        device->ops->dropout(device, n, spec->out, key, layer->output);
}

/* Adds to dweight and dbias from doutput, which is overwritten; for a convolution also writes
 * dinput, since the two share work. */
static void layer_grad_params(Layer *layer, Device *device, int n)
{
    const LayerSpec *spec = layer->spec;
    if (spec->kind != LAYER_LINEAR) {
        device->ops->conv_grad(device, spec->conv, n, layer->input, layer->output, layer->argmax,
                               layer->weight, layer->scale, layer->doutput, layer->dweight,
                               layer->dbias, layer->dinput);
        return;
    }
    if (spec->relu)
        device->ops->relu_grad(device, (size_t)n * spec->out, layer->output, layer->scale,
                               layer->doutput);
    device->ops->linear_grad_params(device, n, spec->in, spec->out, layer->input, layer->doutput,
                                    layer->dweight, layer->dbias);
}

static void layer_grad_input(Layer *layer, Device *device, int n)
{
    const LayerSpec *spec = layer->spec;
    if (spec->kind == LAYER_LINEAR && layer->dinput != NULL)
        device->ops->linear_grad_input(device, n, spec->in, spec->out, layer->doutput,
                                       layer->weight, layer->dinput);
}

/* ---- the models ---- */

enum { MAX_LAYERS = MODEL_MAX_PARAMETERS / 2 };

static const LayerSpec linear_layers[] = {
    { LAYER_LINEAR, "weight", "bias", .in = 20, .out = 1 },
};

static const LayerSpec cnn_layers[] = {
    { LAYER_CONV, "conv1.weight", "conv1.bias", .conv = { 1, 28, 32, 3 }, .out = 32 * 26 * 26 },
    { LAYER_CONV_POOL, "conv2.weight", "conv2.bias", .conv = { 32, 26, 64, 3 }, .out = 64 * 12 * 12,
      .dropout = 0.25f },
    { LAYER_LINEAR, "fc1.weight", "fc1.bias", .in = 64 * 12 * 12, .out = 128, .relu = true,
      .dropout = 0.5f },
    { LAYER_LINEAR, "fc2.weight", "fc2.bias", .in = 128, .out = 10 },
};

/* Eight equal layers, for docs/zero.md. Of the 784 outputs the digits use ten. */
static const LayerSpec mlp_layers[] = {
    { LAYER_LINEAR, "fc1.weight", "fc1.bias", .in = 28 * 28, .out = 28 * 28, .relu = true },
    { LAYER_LINEAR, "fc2.weight", "fc2.bias", .in = 28 * 28, .out = 28 * 28, .relu = true },
    { LAYER_LINEAR, "fc3.weight", "fc3.bias", .in = 28 * 28, .out = 28 * 28, .relu = true },
    { LAYER_LINEAR, "fc4.weight", "fc4.bias", .in = 28 * 28, .out = 28 * 28, .relu = true },
    { LAYER_LINEAR, "fc5.weight", "fc5.bias", .in = 28 * 28, .out = 28 * 28, .relu = true },
    { LAYER_LINEAR, "fc6.weight", "fc6.bias", .in = 28 * 28, .out = 28 * 28, .relu = true },
    { LAYER_LINEAR, "fc7.weight", "fc7.bias", .in = 28 * 28, .out = 28 * 28, .relu = true },
    { LAYER_LINEAR, "fc8.weight", "fc8.bias", .in = 28 * 28, .out = 28 * 28 },
};

typedef struct Network {
    const char *name;
    int features; // numbers in an input row
    const LayerSpec *layers;
    int num_layers;
    int num_classes; // classes of its labels, with nll_loss; 0: numbers, with the squared error
} Network;

static const Network networks[] = {
    [MODEL_LINEAR] = { "linear", 20, linear_layers, 1, 0 },
    [MODEL_CNN] = { "cnn", 28 * 28, cnn_layers, 4, 10 },
    [MODEL_MLP] = { "mlp", 28 * 28, mlp_layers, MAX_LAYERS, 10 },
};

static Layer *last_layer(const Model *model)
{
    return &model->layer[model->network->num_layers - 1];
}

/* Lists the parameters, weight and bias of each layer, and gives each its slice. */
static void place_parameters(Model *model)
{
    for (int i = 0; i < model->network->num_layers; i++) {
        const LayerSpec *layer = &model->network->layers[i];
        const size_t kernel = layer->conv.kernel, in = layer->conv.in_channels;
        Tensor *weight = &model->parameter[2 * i], *bias = weight + 1;
        if (layer->kind == LAYER_LINEAR)
            *weight = (Tensor){ .shape = { layer->out, layer->in, 1, 1 }, .ndim = 2 };
        else
            *weight =
                (Tensor){ .shape = { layer->conv.out_channels, in, kernel, kernel }, .ndim = 4 };
        const size_t *shape = weight->shape;
        *bias = (Tensor){ .name = layer->bias_name, .shape = { shape[0] }, .ndim = 1 };
        weight->name = layer->weight_name;
        weight->numel = shape[0] * shape[1] * shape[2] * shape[3];
        bias->numel = shape[0];
        weight->offset = model->numel;
        bias->offset = weight->offset + weight->numel;
        model->numel = bias->offset + bias->numel;
    }
    model->num_parameters = 2 * model->network->num_layers;
    model->params = device_malloc(model->device, model->numel * sizeof(float));
    model->grads = device_malloc(model->device, (model->numel + 1) * sizeof(float));
}

/* Draws as PyTorch's Linear and Conv2d do: uniform, the weight by kaiming_uniform_(a=sqrt(5)). */
static void draw_parameters(Model *model, Rng *rng)
{
    for (int i = 0; i < model->num_parameters; i++) {
        const Tensor *weight = &model->parameter[i / 2 * 2];
        const double fan_in = (double)(weight->numel / weight->shape[0]);
        const double bound =
            i % 2 == 0 ? sqrt(3.0) * (sqrt(2.0 / 6.0) / sqrt(fan_in)) : 1 / sqrt(fan_in);
        const size_t numel = model->parameter[i].numel;
        float *values = mem_calloc(numel, sizeof *values);
        for (size_t j = 0; j < numel; j++)
            values[j] = rng_uniform_between(rng, (float)-bound, (float)bound);
        model_import(model, i, values, model->params);
        free(values);
    }
}

/* Allocates device memory for each row of a batch. */
static void *allocate(Model *model, int rows, size_t row_bytes)
{
    void *memory = device_malloc(model->device, (size_t)rows * row_bytes);
    return model->memory[model->num_memory++] = memory;
}

static void layer_init(Model *model, int i)
{
    const DeviceOps *ops = model->device->ops;
    const LayerSpec *spec = &model->network->layers[i];
    const int rows = model->max_batch, out = spec->out;
    Layer *layer = &model->layer[i];
    *layer = (Layer){ .spec = spec };
    layer->input = i > 0 ? layer[-1].output : model->inputs;
    layer->dinput = i > 0 ? layer[-1].doutput : NULL;
    layer->output = allocate(model, rows, out * sizeof(float));
    layer->doutput = allocate(model, rows, out * sizeof(float));
    if (spec->kind == LAYER_CONV_POOL)
        layer->argmax = allocate(model, rows, out);
    if (spec->kind != LAYER_LINEAR && ops->conv_reserve != NULL)
        ops->conv_reserve(model->device, spec->conv);
    if (spec->kind == LAYER_LINEAR && ops->linear_reserve != NULL)
        ops->linear_reserve(model->device, rows, spec->in, out);
    const size_t offset = model->parameter[2 * i].offset;
    model_place_layer(model, i, model->params + offset, model->grads + offset);
}

void model_init(Model *model, const Args *args, int max_batch, Rng *rng, Device *device)
{
    // A batch is never larger than its data set, so a huge --batch-size must not cost memory.
    if (max_batch > dataset_max_rows(args))
        max_batch = dataset_max_rows(args);
    const Network *network = &networks[args->model];
    *model = (Model){ .name = network->name,
                      .device = device,
                      .training = true,
                      .network = network,
                      .layer = mem_calloc(network->num_layers, sizeof(Layer)),
                      .max_batch = max_batch,
                      .dropout = args->dropout,
                      .seed = args->seed };
    place_parameters(model);

    model->inputs = allocate(model, max_batch, network->features * sizeof(float));
    model->labels = allocate(model, max_batch, sizeof(int32_t));
    model->targets = allocate(model, max_batch, sizeof(float));
    for (int i = 0; i < network->num_layers; i++)
        layer_init(model, i);
    model->log_probs = allocate(model, max_batch, last_layer(model)->spec->out * sizeof(float));
    model->stats = allocate(model, 2, sizeof(float));
    model->divergence = allocate(model, 1, sizeof(Divergence));
    if (device->ops->gather_reserve != NULL)
        device->ops->gather_reserve(device, max_batch, network->features);
    draw_parameters(model, rng);
}

void model_free(Model *model)
{
    for (int i = 0; i < model->num_memory; i++)
        device_release(model->device, model->memory[i]);
    device_release(model->device, model->params);
    device_release(model->device, model->grads);
    free(model->layer);
}

void model_train(Model *model)
{
    model->training = true;
}

void model_eval(Model *model)
{
    model->training = false;
}

void model_zero_grad(Model *model)
{
    model->device->ops->zero(model->device, model->grads, model->numel);
}

static void call_layer_hook(const Model *model, LayerHook *hook, int i, bool backward)
{
    if (hook != NULL)
        hook(model->layer_hook_context, i, backward);
}

static void check_batch(const Model *model, const Batch *batch)
{
    const Network *network = model->network;
    const Dataset *dataset = batch->dataset;
    CHECK(dataset->features == (size_t)network->features &&
              dataset->num_classes == network->num_classes,
          "the %s takes %d numbers and %d classes, the data set %s has %zu and %d", network->name,
          network->features, network->num_classes, dataset->name, dataset->features,
          dataset->num_classes);
    CHECK(batch->size > 0 && batch->size <= model->max_batch,
          "a batch of %d rows for a model made for 1 to %d", batch->size, model->max_batch);
}

void model_forward(Model *model, const Batch *batch)
{
    Device *device = model->device;
    const int n = batch->size;
    check_batch(model, batch);
    model->batch_size = n;
    const int shards = batch->dataset->shards;
    device->shards = shards > 0 ? shards / batch->row_stride : 0; // this rank's shards
    if (model->training && device->ops->begin_step != NULL)
        device->ops->begin_step(device, batch, model->step);
    if (device->replaying)
        return; // the replayed graph does all of it

    device->ops->gather(device, batch, model->inputs, model->labels, model->targets);

    const bool has_dropout = model->training && model->dropout;
    for (int i = 0; i < model->network->num_layers; i++) {
        Layer *layer = &model->layer[i];
        const DropoutKey key = {
            model->seed,      model->step,       i,
            batch->first_row, batch->row_stride, has_dropout ? layer->spec->dropout : 0
        };
        call_layer_hook(model, model->before_layer, i, false);
        layer_forward(layer, device, n, key);
        call_layer_hook(model, model->after_layer, i, false);
    }

    const Layer *last = last_layer(model);
    if (model->network->num_classes > 0)
        device->ops->nll(device, n, last->spec->out, last->output, model->labels, model->log_probs,
                         model->stats);
    else
        device->ops->mse(device, n, last->output, model->targets, model->stats);
}

/* Calls the hook, as weight and bias of layer i have their gradients. */
static void call_grad_hook(Model *model, int i)
{
    if (model->grad_hook != NULL) {
        model->grad_hook(model->grad_hook_context, 2 * i + 1);
        model->grad_hook(model->grad_hook_context, 2 * i);
    }
}

void model_backward(Model *model)
{
    Device *device = model->device;
    const int n = model->batch_size;
    Layer *last = last_layer(model);
    if (device->replaying) {
        for (int i = model->network->num_layers - 1; i >= 0; i--)
            call_grad_hook(model, i); // the reducer counts them
        return;
    }

    if (model->network->num_classes > 0)
        device->ops->nll_grad(device, n, last->spec->out, model->log_probs, model->labels,
                              last->doutput);
    else
        device->ops->mse_grad(device, n, last->output, model->targets, last->doutput);

    for (int i = model->network->num_layers - 1; i >= 0; i--) {
        Layer *layer = &model->layer[i];
        call_layer_hook(model, model->before_layer, i, true);
        layer_grad_params(layer, device, n);
        call_grad_hook(model, i);
        layer_grad_input(layer, device, n);
        call_layer_hook(model, model->after_layer, i, true);
    }
}

float model_loss(const Model *model)
{
    float loss;
    device_copy(model->device, &loss, model->stats, sizeof loss, COPY_TO_HOST);
    return isnan(loss) ? NAN : loss; // a nan's sign means nothing, but printf shows it: "-nan"
}

int model_correct(const Model *model)
{
    float correct;
    device_copy(model->device, &correct, model->stats + 1, sizeof correct, COPY_TO_HOST);
    return (int)correct;
}

Divergence model_divergence(const Model *model)
{
    Divergence divergence;
    device_copy(model->device, &divergence, model->divergence, sizeof divergence, COPY_TO_HOST);
    return divergence;
}

void model_set_grad_hook(Model *model, GradHook *hook, void *context)
{
    model->grad_hook = hook;
    model->grad_hook_context = context;
}

void model_set_layer_hooks(Model *model, LayerHook *before, LayerHook *after, void *context)
{
    model->before_layer = before;
    model->after_layer = after;
    model->layer_hook_context = context;
}

void model_place_layer(Model *model, int i, float *params, float *grads)
{
    Layer *layer = &model->layer[i];
    const size_t weights = model->parameter[2 * i].numel;
    layer->weight = params;
    layer->bias = params != NULL ? params + weights : NULL;
    layer->dweight = grads;
    layer->dbias = grads != NULL ? grads + weights : NULL;
}

/* Returns how many channels the images have that are the rows of a parameter. The rows of a linear
 * layer are images if its inputs come from a convolution. 1 for other rows: both orders are
 * equal. */
static size_t row_channels(const Model *model, int i)
{
    const LayerSpec *layer = &model->network->layers[i / 2];
    const bool is_weight = i % 2 == 0;
    if (is_weight && layer->kind != LAYER_LINEAR)
        return layer->conv.in_channels;
    if (is_weight && i > 0 && layer[-1].kind != LAYER_LINEAR)
        return layer[-1].conv.out_channels;
    return 1;
}

/* Converts channels first to channels last and back: each row of a parameter has `lines` channels,
 * or pixels, and goes from [lines][columns] to [columns][lines]. It reads across and writes along,
 * since a store across takes a cache line from memory and back for each number. */
static void transpose(const Tensor *tensor, size_t lines, const float *restrict from,
                      float *restrict to)
{
    const size_t rows = tensor->shape[0], columns = tensor->numel / rows / lines;
    for (size_t row = 0; row < rows; row++, from += lines * columns, to += lines * columns)
        for (size_t column = 0; column < columns; column++)
            for (size_t line = 0; line < lines; line++)
                to[column * lines + line] = from[line * columns + column];
}

void model_export(const Model *model, int i, const float *array, float *host)
{
    const Tensor *tensor = &model->parameter[i];
    const size_t bytes = tensor->numel * sizeof *host;
    const size_t pixels = tensor->numel / tensor->shape[0] / row_channels(model, i);
    float *copy = model->device->place.on_gpu ? mem_alloc(bytes, 1) : NULL;
    array += tensor->offset;
    if (copy != NULL)
        device_copy(model->device, copy, array, bytes, COPY_TO_HOST);
    transpose(tensor, pixels, copy != NULL ? copy : array, host);
    free(copy);
}

void model_import(const Model *model, int i, const float *host, float *array)
{
    const Tensor *tensor = &model->parameter[i];
    const size_t bytes = tensor->numel * sizeof *host;
    float *copy = model->device->place.on_gpu ? mem_alloc(bytes, 1) : NULL;
    array += tensor->offset;
    transpose(tensor, row_channels(model, i), host, copy != NULL ? copy : array);
    if (copy != NULL)
        device_copy(model->device, array, copy, bytes, COPY_TO_DEVICE);
    free(copy);
}
