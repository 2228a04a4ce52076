/* optim.h - SGD, Adam, AdamW and Adadelta over the flat arrays, as torch.optim defines them. */
#ifndef COMMON_NN_OPTIM_H
#define COMMON_NN_OPTIM_H

#include "common/nn/model.h"

typedef struct {
    OptimKind kind;
    const char *name; // "sgd", "adam", "adamw" or "adadelta"
    Model *model;
    double lr, momentum, weight_decay;
    LrSchedule schedule; // for lr
    double clip_norm; // 0: off
    int num_states; // 0 to 2 arrays shaped like the parameters
    const char *state_name[2]; // PyTorch's: "momentum_buffer", "exp_avg", ...
    float *state[2]; // device memory, model->numel floats each
} Optimizer;

/* Initialises optim; steps_per_epoch: batches of this rank, for --lr-schedule. */
void optim_init(Optimizer *optim, const Args *args, Model *model, size_t steps_per_epoch);
void optim_step(Optimizer *optim); // updates params from grads; increments model->step
void optim_free(Optimizer *optim);

/* Returns what --lr-schedule and --warmup-steps ask for. */
LrSchedule lr_schedule(const Args *args, size_t steps_per_epoch);

#endif
