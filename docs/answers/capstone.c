/*
 * The answer to lab-capstone: other images, and another model.
 *
 * The images come in MNIST's files, but have a mean and a deviation of their own. The model is an
 * mlp of three linear layers, 784 to 64 to 32 to 10, each but the last followed by a relu.
 */
#include <math.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/nn/model.h"

enum { LAYERS = 3, SIDE = 28, CLASSES = 10 };

static const int width[LAYERS + 1] = { SIDE * SIDE, 64, 32, CLASSES };
static const float image_mean = 0.1791f, image_std = 0.1766f;

/* ---- the data set ---- */

void dataset_init(Dataset *dataset, const Args *args, Split split, Rng *rng)
{
    (void)rng; // nothing is drawn: the rows are in files
    const char *dir = args->scratch_dir != NULL ? args->scratch_dir : args->data_dir;
    size_t shape[3], count;
    *dataset =
        (Dataset){ .name = "mnist", .features = SIDE * SIDE, .num_classes = CLASSES, .std = 1 };
    dataset->bytes = idx_read(
        dir, split == TRAIN ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte", 3, shape);
    uint8_t *classes = idx_read(
        dir, split == TRAIN ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte", 1, &count);
    CHECK(shape[1] == SIDE && shape[2] == SIDE && shape[0] == count,
          "%s: %zu images of %zu x %zu pixels, and %zu labels", dir, shape[0], shape[1], shape[2],
          count);

    dataset->size = count;
    dataset->labels = mem_calloc(count, sizeof *dataset->labels);
    for (size_t row = 0; row < count; row++)
        dataset->labels[row] = classes[row];
    free(classes);
    dataset_normalise(dataset, image_mean, image_std);
    if (split == TRAIN && args->num_samples > 0 && (size_t)args->num_samples < count)
        dataset->size = (size_t)args->num_samples;
}

void dataset_normalise(Dataset *dataset, float mean, float std)
{
    for (int i = 0; i < 256; i++)
        dataset->normalised[i] = ((float)i / 255 - mean) / std;
    dataset->mean = mean;
    dataset->std = std;
}

void dataset_free(Dataset *dataset)
{
    free(dataset->bytes);
    free(dataset->labels);
}

/* Given: the files are not open yet. */
int dataset_max_rows(const Args *args)
{
    (void)args;
    return INT_MAX;
}

/* ---- the model: what it is ---- */

typedef struct Layer {
    float *output, *doutput; // [max_batch][width[i + 1]]
} Layer;

static float *part(float *array, const Tensor *tensor)
{
    return array + tensor->offset;
}

static void list_parameters(Model *model)
{
    static const char *const name[2 * LAYERS] = { "fc1.weight", "fc1.bias",   "fc2.weight",
                                                  "fc2.bias",   "fc3.weight", "fc3.bias" };
    for (int i = 0; i < 2 * LAYERS; i++) {
        const size_t in = (size_t)width[i / 2], out = (size_t)width[i / 2 + 1];
        const bool is_weight = i % 2 == 0;
        model->parameter[i] = (Tensor){ .name = name[i],
                                        .shape = { out, is_weight ? in : 0 },
                                        .ndim = is_weight ? 2 : 1,
                                        .offset = model->numel,
                                        .numel = is_weight ? out * in : out };
        model->numel += model->parameter[i].numel;
    }
    model->num_parameters = 2 * LAYERS;
}

static void draw_parameters(Model *model, Rng *rng)
{
    for (int i = 0; i < 2 * LAYERS; i++) {
        const double fan_in = width[i / 2];
        const float bound =
            (float)(i % 2 == 0 ? sqrt(3.0) * (sqrt(2.0 / 6.0) / sqrt(fan_in)) : 1 / sqrt(fan_in));
        float *values = mem_calloc(model->parameter[i].numel, sizeof *values);
        for (size_t j = 0; j < model->parameter[i].numel; j++)
            values[j] = rng_uniform_between(rng, -bound, bound);
        model_import(model, i, values, model->params);
        free(values);
    }
}

/* Given: device memory, zeroed, which model_free releases. */
static void *allocate(Model *model, size_t bytes)
{
    return model->memory[model->num_memory++] = device_malloc(model->device, bytes);
}

void model_init(Model *model, const Args *args, int max_batch, Rng *rng, Device *device)
{
    *model = (Model){ .name = "mlp",
                      .device = device,
                      .training = true,
                      .layer = mem_calloc(LAYERS, sizeof(Layer)),
                      .max_batch = max_batch,
                      .seed = args->seed };
    list_parameters(model);
    const size_t rows = (size_t)max_batch;
    model->params = allocate(model, model->numel * sizeof(float));
    model->grads = allocate(model, (model->numel + 1) * sizeof(float)); // the last: the reducer's
    model->inputs = allocate(model, rows * (size_t)width[0] * sizeof(float));
    model->labels = allocate(model, rows * sizeof(int32_t));
    model->log_probs = allocate(model, rows * CLASSES * sizeof(float));
    model->stats = allocate(model, 2 * sizeof(float));
    model->divergence = allocate(model, sizeof(Divergence));
    for (int i = 0; i < LAYERS; i++) {
        const size_t bytes = rows * (size_t)width[i + 1] * sizeof(float);
        model->layer[i] = (Layer){ allocate(model, bytes), allocate(model, bytes) };
    }
    draw_parameters(model, rng);
}

/* ---- the model: what it computes ---- */

/* Given: fetches the rows of the batch into model->inputs and model->labels. */
static void fetch(Model *model, const Batch *batch)
{
    Device *device = model->device;
    CHECK(batch->size > 0 && batch->size <= model->max_batch, "a batch of %d rows", batch->size);
    model->batch_size = batch->size;
    if (model->training && device->ops->begin_step != NULL)
        device->ops->begin_step(device, batch, model->step);
    device->ops->gather(device, batch, model->inputs, model->labels, model->targets);
}

void model_forward(Model *model, const Batch *batch)
{
    Device *device = model->device;
    const DeviceOps *ops = device->ops;
    fetch(model, batch);
    const float *x = model->inputs;
    for (int i = 0; i < LAYERS; i++) {
        ops->linear(device, batch->size, width[i], width[i + 1], i < LAYERS - 1, x,
                    part(model->params, &model->parameter[2 * i]),
                    part(model->params, &model->parameter[2 * i + 1]), model->layer[i].output);
        x = model->layer[i].output;
    }
    ops->nll(device, batch->size, CLASSES, x, model->labels, model->log_probs, model->stats);
}

void model_backward(Model *model)
{
    Device *device = model->device;
    const DeviceOps *ops = device->ops;
    const int n = model->batch_size;
    Layer *layer = model->layer;
    ops->nll_grad(device, n, CLASSES, model->log_probs, model->labels, layer[LAYERS - 1].doutput);
    for (int i = LAYERS - 1; i >= 0; i--) {
        const Tensor *weight = &model->parameter[2 * i], *bias = weight + 1;
        if (i < LAYERS - 1)
            ops->relu_grad(device, (size_t)n * (size_t)width[i + 1], layer[i].output, 1,
                           layer[i].doutput);
        ops->linear_grad_params(device, n, width[i], width[i + 1],
                                i > 0 ? layer[i - 1].output : model->inputs, layer[i].doutput,
                                part(model->grads, weight), part(model->grads, bias));
        if (model->grad_hook != NULL) {
            model->grad_hook(model->grad_hook_context, 2 * i + 1);
            model->grad_hook(model->grad_hook_context, 2 * i);
        }
        if (i > 0)
            ops->linear_grad_input(device, n, width[i], width[i + 1], layer[i].doutput,
                                   part(model->params, weight), layer[i - 1].doutput);
    }
}

/* ---- the rest is given ---- */

void model_free(Model *model)
{
    for (int i = 0; i < model->num_memory; i++)
        device_release(model->device, model->memory[i]);
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

float model_loss(const Model *model)
{
    float loss;
    device_copy(model->device, &loss, model->stats, sizeof loss, COPY_TO_HOST);
    return loss;
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
    (void)model, (void)before, (void)after, (void)context;
    die("this model has no layer hooks");
}

void model_place_layer(Model *model, int i, float *params, float *grads)
{
    (void)model, (void)i, (void)params, (void)grads;
    die("the layers of this model stay where they are");
}

void model_export(const Model *model, int i, const float *array, float *host)
{
    const Tensor *tensor = &model->parameter[i];
    device_copy(model->device, host, array + tensor->offset, tensor->numel * sizeof *host,
                COPY_TO_HOST);
}

void model_import(const Model *model, int i, const float *host, float *array)
{
    const Tensor *tensor = &model->parameter[i];
    device_copy(model->device, array + tensor->offset, host, tensor->numel * sizeof *host,
                COPY_TO_DEVICE);
}
