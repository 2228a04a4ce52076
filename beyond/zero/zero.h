/*
 * zero.h - what train_zero1.c to train_zero5.c share: parameters, gradients and optimizer state in
 * shards.
 *
 * Every replica of DDP holds the same optimizer state, the same averaged gradients and the same
 * parameters. ZeRO (Rajbhandari et al., "ZeRO: Memory optimizations toward training trillion
 * parameter models", 2020) divides them: stage 1 the state, stage 2 the gradients too, stage 3
 * everything, which PyTorch calls FSDP; small layers may stay replicas. The layers are cut into
 * units; a rank owns a share of each unit, 1 / world_size of it, and only the owner's optimizer
 * changes it.
 *
 * The programs show which collective moves what, and when, in the memory of any device.
 */
#ifndef BEYOND_ZERO_H
#define BEYOND_ZERO_H

#include "common/base/args.h"
#include "common/comm/process_group.h"
#include "common/nn/optim.h"

enum { ZERO_MAX_UNITS = MODEL_MAX_PARAMETERS / 2 };

/* Consecutive layers that are sent together: the bucket of DDP's Reducer, or in stage 3 one
 * layer. */
typedef struct {
    int number; // 0 for the last layers, whose gradients come first
    int first_layer, last_layer;
    size_t offset, numel; // place of its parameters in the whole model
    size_t share; // elements of each rank's share: numel / world_size, rounded up
    uint64_t first_step; // steps before the optimizer got this unit (0 if it always had it)
    bool replicated; // whether it is a small layer that each rank keeps whole, as its share
    size_t own_offset; // where shares begin in an array of this rank's shares
    float *params, *grads; // the whole unit, share after share; NULL if not on this rank now
    float *own_params, *own_grads; // this rank's share
    Work work; // the collective that moves the unit
} ZeroUnit;

/* What is divided. Each stage also divides what the previous one does; ZERO_LARGE leaves out layers
 * of fewer than ZERO_SMALL parameters. */
typedef enum { ZERO_STATE = 1, ZERO_GRADS, ZERO_PARAMS, ZERO_LARGE } ZeroStage;
enum { ZERO_SMALL = 20000 };

/* What zero_unshard replaces and zero_reshard puts back. */
typedef struct {
    size_t numel;
    float *params, *state[2];
} ZeroArrays;

typedef struct {
    ZeroStage stage;
    ProcessGroup *pg;
    Model *model;
    Optimizer *optim;
    ZeroUnit unit[ZERO_MAX_UNITS];
    int num_units, num_added; // num_added: see zero_add_units
    size_t numel, own_numel; // elements of the whole model; of all shares of this rank
    float *grad_buffer[2], *param_buffer[2]; // buffers of units that are temporarily whole, or NULL
    ZeroArrays sharded; // what zero_reshard puts back
} Zero;

/* Cuts the layers into units, from the last one: at the bounds of DDP's buckets (--bucket-cap-mb,
 * but no layer is cut), in stage 3 after each layer. Keeps the parts of model and optim that
 * this stage leaves to this rank, and releases the rest: from here on model->params and grads are
 * no longer in the order of the parameters. All ranks must pass the same model and state. No
 * communication. */
void zero_init(Zero *zero, const Args *args, ProcessGroup *pg, Model *model, Optimizer *optim,
               ZeroStage stage);
void zero_free(Zero *zero);

ZeroUnit *zero_unit_of(Zero *zero, int layer);

/* Lets the layers of the unit compute with unit->params and unit->grads as they are now. */
void zero_place(const Zero *zero, const ZeroUnit *unit);

/* Return memory for one whole unit. There are two of each kind, so that one unit can be sent while
 * the next is computed: units of even number share one, units of odd number the other. */
float *zero_grad_buffer(const Zero *zero, const ZeroUnit *unit); // zeroed
float *zero_param_buffer(const Zero *zero, const ZeroUnit *unit);

/* Gather a unit in 16 bits. The upper half of unit->params, a buffer, holds the unit in bf16.
 * zero_narrow rounds this rank's share to its place there, and returns the first rank's place;
 * zero_widen waits for unit->work and makes floats of all of them, in place; it does nothing for a
 * replicated unit. On a CPU only. */
uint16_t *zero_narrow(const Zero *zero, const ZeroUnit *unit);
void zero_widen(const Zero *zero, const ZeroUnit *unit);

/* Gives the optimizer the units up to number `due` - 1 that it does not have yet, after first_step
 * steps: add_param_group of PyTorch's ZeroRedundancyOptimizer. Their state is new, so Adam counts
 * their steps from here. Usage error with a schedule of the learning rate. */
void zero_add_units(Zero *zero, int due, uint64_t first_step);

/* Takes the optimizer's step on this rank's share of the unit. The step is complete when all units
 * have taken it; then count it in model->step. */
void zero_step(const Zero *zero, const ZeroUnit *unit);

/* Returns model_divergence over all ranks, each of which sees only its own share. Collective. */
Divergence zero_divergence(const Zero *zero);

/* Makes rank 0's model and optimizer whole until zero_reshard, for checkpoint_save. The file is the
 * one that DDP writes. Collective. */
void zero_unshard(Zero *zero);
void zero_reshard(Zero *zero); // local

#endif
