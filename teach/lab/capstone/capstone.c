/*
 * lab-capstone: other images, and another model.
 *
 * The images come in MNIST's files, but have a mean and a deviation of their own. The model is an
 * mlp of three linear layers, 784 to 64 to 32 to 10, each but the last followed by a relu.
 */
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
    (void)dataset, (void)args, (void)split, (void)rng, (void)image_mean, (void)image_std;
    die("dataset_init is not written yet");
}

void dataset_normalise(Dataset *dataset, float mean, float std)
{
    (void)dataset, (void)mean, (void)std;
    die("dataset_normalise is not written yet");
}

void dataset_free(Dataset *dataset)
{
    (void)dataset; // what dataset_init has allocated
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

/* Fills in model->parameter, weight and bias of each layer in turn, num_parameters and numel. */
static void list_parameters(Model *model)
{
    (void)model, (void)width;
}

/* Draws the weights as PyTorch does, and gives each parameter its values by model_import. */
static void draw_parameters(Model *model, Rng *rng)
{
    (void)model, (void)rng;
}

/* Given: device memory, zeroed, which model_free releases. */
static void *allocate(Model *model, size_t bytes)
{
    return model->memory[model->num_memory++] = device_malloc(model->device, bytes);
}

/* Given. */
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
    fetch(model, batch);
    die("model_forward is not written yet");
}

void model_backward(Model *model)
{
    (void)model;
    die("model_backward is not written yet");
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
