/* The state of each optimizer, under PyTorch's names, so that checkpoints can be exchanged. The
 * device implements the formulas: a step is one pass over the flat arrays, regardless of layers. */
#include "common/nn/optim.h"

#include <string.h>

static const struct {
    const char *name;
    const char *state_name[2];
} kinds[] = {
    [OPTIM_SGD] = { "sgd", { "momentum_buffer" } },
    [OPTIM_ADAM] = { "adam", { "exp_avg", "exp_avg_sq" } },
    [OPTIM_ADAMW] = { "adamw", { "exp_avg", "exp_avg_sq" } },
    [OPTIM_ADADELTA] = { "adadelta", { "square_avg", "acc_delta" } },
};

LrSchedule lr_schedule(const Args *args, size_t steps_per_epoch)
{
    return (LrSchedule){ .kind = args->lr_schedule,
                         .warmup_steps = (uint64_t)args->warmup_steps,
                         .steps_per_epoch = steps_per_epoch,
                         .total_steps = (uint64_t)args->epochs * steps_per_epoch };
}

void optim_init(Optimizer *optim, const Args *args, Model *model, size_t steps_per_epoch)
{
    const OptimKind kind = args->optimizer;
    *optim = (Optimizer){ .kind = kind,
                          .name = kinds[kind].name,
                          .model = model,
                          .lr = args->lr,
                          .schedule = lr_schedule(args, steps_per_epoch),
                          .clip_norm = args->clip_norm,
                          .momentum = args->momentum,
                          .weight_decay = args->weight_decay,
                          .num_states = kind != OPTIM_SGD ? 2 : args->momentum != 0 };
    for (int i = 0; i < optim->num_states; i++) {
        optim->state_name[i] = kinds[kind].state_name[i];
        optim->state[i] = device_malloc(model->device, model->numel * sizeof(float));
    }
}

void optim_step(Optimizer *optim)
{
    Model *model = optim->model;
    Device *device = model->device;
    const OptimStep step = { ++model->step, model->stats, model->divergence, optim->schedule };
    const OptimRule rule = { optim->kind,
                             optim->lr,
                             optim->momentum,
                             optim->weight_decay,
                             { optim->state[0], optim->state[1] } };
    if (!device->replaying && optim->clip_norm > 0)
        device->ops->clip_grads(device, model->numel, model->grads, (float)optim->clip_norm);
    if (!device->replaying)
        device->ops->optim(device, model->numel, model->params, model->grads, &rule, step);
    if (device->ops->end_step != NULL)
        device->ops->end_step(device);
}

void optim_free(Optimizer *optim)
{
    for (int i = 0; i < optim->num_states; i++)
        device_release(optim->model->device, optim->state[i]);
}
