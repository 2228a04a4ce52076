/* model.h - a network whose parameters form one flat array, as do its gradients.
 *
 * Broadcast, all-reduce, optimizer and checkpoint are then loops over one array, and a bucket of
 * gradients is a pointer and a length. Within a parameter's slice the channels come last
 * (DeviceOps); model_export and model_import convert to and from PyTorch's layout, where they come
 * first. */
#ifndef COMMON_NN_MODEL_H
#define COMMON_NN_MODEL_H

#include <stdbool.h>

#include "common/base/memory.h"
#include "common/base/rng.h"
#include "common/data/dataloader.h"
#include "common/nn/device.h"

#define MODEL_MAX_PARAMETERS 16

/* Called by model_backward as soon as the gradient of parameter[i] is complete (on a GPU: queued).
 * The calls come in reverse order of the layers, weight and bias of a layer together. */
typedef void GradHook(void *context, int i);

/* Called by both passes before layer i (parameters 2 i and 2 i + 1) is computed, and after it. */
typedef void LayerHook(void *context, int i, bool backward);

typedef struct {
    const char *name; // "cnn", "linear" or "mlp"
    Device *device;
    Tensor parameter[MODEL_MAX_PARAMETERS]; // in the order of PyTorch's state_dict
    int num_parameters;
    float *params, *grads; // device memory, numel floats each; grads[numel] is for reducer_spare
    size_t numel;
    uint64_t step; // optimizer steps taken; keys the dropout masks
    bool training; // a forward pass begins a step, which optim_step ends
    GradHook *grad_hook;
    void *grad_hook_context;
    LayerHook *before_layer, *after_layer; // NULL if none
    void *layer_hook_context;
    float *stats; // device memory, of the last forward pass: loss, rows classified correctly
    float *log_probs; // device memory, of that pass, too: [rows][classes], unless it gives numbers
    Divergence *divergence; // device memory, written by the optimizer

    // Private to model.c.
    const struct Network *network; // the table of layers
    struct Layer *layer;
    int max_batch, batch_size; // batch_size: rows of the last forward pass
    bool dropout; // --dropout on
    uint64_t seed;
    float *inputs, *targets; // device memory: [max_batch][features] and [max_batch]
    int32_t *labels; // [max_batch]
    void *memory[3 * MODEL_MAX_PARAMETERS]; // what model_free releases
    int num_memory;
} Model;

/* Builds the model args->model for batches of up to max_batch rows, or the data set's if fewer,
 * with initial weights drawn from rng as by PyTorch's default initialisation. Local. */
void model_init(Model *model, const Args *args, int max_batch, Rng *rng, Device *device);
void model_free(Model *model);

void model_train(Model *model); // turns dropout on, unless --dropout off
void model_eval(Model *model); // turns dropout off

void model_zero_grad(Model *model);
void model_forward(Model *model, const Batch *batch); // fetches the rows, computes the loss
void model_backward(Model *model); // goes back through the last forward pass; adds to grads

/* Return results of the last forward pass; both wait for the device. */
float model_loss(const Model *model); // mean over the batch
int model_correct(const Model *model); // rows classified correctly

/* Returns the divergence that the optimizer's steps have recorded so far; waits for the device. */
Divergence model_divergence(const Model *model);

void model_set_grad_hook(Model *model, GradHook *hook, void *context); // NULL if none

/* Parameters need not be in params and grads: a hook may place those of a layer before it is
 * computed, and remove them (NULL) afterwards. Weight first, then bias. */
void model_set_layer_hooks(Model *model, LayerHook *before, LayerHook *after, void *context);
void model_place_layer(Model *model, int i, float *params, float *grads);

/* Convert one parameter's slice of an array shaped like params (the gradients, an optimizer's
 * state) to and from PyTorch's layout, in host memory, parameter[i].numel floats. */
void model_export(const Model *model, int i, const float *array, float *host);
void model_import(const Model *model, int i, const float *host, float *array);

#endif
