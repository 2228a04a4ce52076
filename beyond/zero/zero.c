/*
 * Shares of units: where they are, the optimizer's step on them, and the whole model when needed.
 *
 * A share is a contiguous part of its unit, the one that reduce_scatter and all_gather give this
 * rank. Both need shares of one size, so a unit is padded with zeros if the number of ranks does
 * not divide it. If it does, or all but one number of a last block, the shares are the blocks of
 * the ring's all_reduce. Then every number is summed in the order of a DDP whose buckets are the
 * units, and has the same bits (bench/zero_drift.py).
 */
#include "beyond/zero/zero.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beyond/bf16.h"
#include "common/base/log.h"
#include "common/base/memory.h"

#define MIB (1024.0 * 1024.0)
#define FIRST_BUCKET_BYTES (1 * MIB) // the Reducer's cap for its first bucket

static size_t bytes_of(size_t numel)
{
    return numel * sizeof(float);
}

static void cut_units(Zero *zero, const Args *args)
{
    const Model *model = zero->model;
    const double cap = zero->stage >= ZERO_PARAMS ? 0 : args->bucket_cap_mb * MIB;
    double limit = fmin(cap, FIRST_BUCKET_BYTES);
    ZeroUnit *unit = NULL;
    for (int layer = model->num_parameters / 2 - 1; layer >= 0; layer--) {
        const Tensor *weight = &model->parameter[2 * layer], *bias = weight + 1;
        if (unit == NULL) {
            unit = &zero->unit[zero->num_units];
            *unit = (ZeroUnit){ .number = zero->num_units++, .last_layer = layer };
        }
        unit->first_layer = layer;
        unit->offset = weight->offset;
        unit->numel += weight->numel + bias->numel;
        if ((double)bytes_of(unit->numel) >= limit) {
            unit = NULL;
            limit = cap;
        }
    }
    for (unit = zero->unit; unit < zero->unit + zero->num_units; unit++) {
        const size_t ranks = (size_t)zero->pg->world_size;
        unit->replicated = zero->stage == ZERO_LARGE && unit->numel < ZERO_SMALL;
        unit->share = unit->replicated ? unit->numel : (unit->numel + ranks - 1) / ranks;
        unit->own_offset = zero->own_numel;
        zero->own_numel += unit->share;
    }
}

/* Copies elements [begin, begin + numel) of a unit from the whole model; the padding stays 0. */
static void copy_part(Device *device, const ZeroUnit *unit, size_t begin, size_t numel,
                      const float *whole, float *part)
{
    if (begin < unit->numel) {
        const size_t rest = unit->numel - begin;
        device_copy(device, part, whole + unit->offset + begin,
                    bytes_of(numel < rest ? numel : rest), COPY_ON_DEVICE);
    }
}

/* Replaces an array of the whole model by this rank's shares of it, or by all shares. */
static float *divide(const Zero *zero, float *whole, bool keep_all)
{
    Device *device = zero->model->device;
    const size_t ranks = (size_t)zero->pg->world_size;
    float *shares = device_malloc(device, bytes_of(zero->own_numel) * (keep_all ? ranks : 1));
    for (const ZeroUnit *unit = zero->unit; unit < zero->unit + zero->num_units; unit++)
        if (keep_all)
            copy_part(device, unit, 0, unit->numel, whole, shares + ranks * unit->own_offset);
        else
            copy_part(device, unit, unit->replicated ? 0 : (size_t)zero->pg->rank * unit->share,
                      unit->share, whole, shares + unit->own_offset);
    device_release(device, whole);
    return shares;
}

/* Points unit->whole and unit->own into an array that `divide` has made. */
static void find_parts(const Zero *zero, const ZeroUnit *unit, float *array, bool has_all,
                       float **whole, float **own)
{
    const size_t ranks = (size_t)zero->pg->world_size, rank = (size_t)zero->pg->rank;
    *own = array + unit->own_offset;
    *whole = unit->replicated ? *own : NULL;
    if (has_all) {
        *whole = array + ranks * unit->own_offset;
        *own = *whole + rank * unit->share;
    }
}

static void reserve_buffers(const Zero *zero, float *buffer[2])
{
    size_t share = 0;
    for (int u = 0; u < zero->num_units; u++)
        if (!zero->unit[u].replicated && zero->unit[u].share > share)
            share = zero->unit[u].share;
    for (int i = 0; i < 2; i++)
        buffer[i] =
            device_malloc(zero->model->device, bytes_of(share) * (size_t)zero->pg->world_size);
}

void zero_init(Zero *zero, const Args *args, ProcessGroup *pg, Model *model, Optimizer *optim,
               ZeroStage stage)
{
    if (args->cuda_graph || model->device->loss_scale != NULL) {
        barrier(pg);
        usage_error("%s: this aside takes each step unit by unit, and each rank others; leave it "
                    "out, or use train",
                    args->cuda_graph ? "--cuda-graph on" : "--amp fp16");
    }
    if (optim->clip_norm > 0) {
        barrier(pg); // otherwise a rank that receives the weights reports that rank 0 is gone
        usage_error("--clip-norm: each rank of this aside holds a share of the gradients, and the "
                    "norm needs all of them; leave it out, or use train");
    }
    *zero =
        (Zero){ .stage = stage, .pg = pg, .model = model, .optim = optim, .numel = model->numel };
    cut_units(zero, args);

    const bool all_params = stage < ZERO_PARAMS, all_grads = stage < ZERO_GRADS;
    for (int s = 0; s < optim->num_states; s++)
        optim->state[s] = divide(zero, optim->state[s], false);
    model->params = divide(zero, model->params, all_params);
    model->grads = divide(zero, model->grads, all_grads);
    model->numel = zero->own_numel * (all_grads ? (size_t)pg->world_size : 1); // for zero_grad
    for (ZeroUnit *unit = zero->unit; unit < zero->unit + zero->num_units; unit++) {
        find_parts(zero, unit, model->params, all_params, &unit->params, &unit->own_params);
        find_parts(zero, unit, model->grads, all_grads, &unit->grads, &unit->own_grads);
        zero_place(zero, unit);
    }
    if (!all_grads)
        reserve_buffers(zero, zero->grad_buffer);
    if (!all_params)
        reserve_buffers(zero, zero->param_buffer);
}

void zero_free(Zero *zero)
{
    for (int i = 0; i < 2; i++) {
        device_release(zero->model->device, zero->grad_buffer[i]);
        device_release(zero->model->device, zero->param_buffer[i]);
    }
}

ZeroUnit *zero_unit_of(Zero *zero, int layer)
{
    ZeroUnit *unit = zero->unit;
    while (layer < unit->first_layer)
        unit++;
    return unit;
}

void zero_place(const Zero *zero, const ZeroUnit *unit)
{
    for (int layer = unit->first_layer; layer <= unit->last_layer; layer++) {
        const size_t offset = zero->model->parameter[2 * layer].offset - unit->offset;
        model_place_layer(zero->model, layer, unit->params != NULL ? unit->params + offset : NULL,
                          unit->grads != NULL ? unit->grads + offset : NULL);
    }
}

float *zero_grad_buffer(const Zero *zero, const ZeroUnit *unit)
{
    Device *device = zero->model->device;
    float *buffer = zero->grad_buffer[unit->number % 2];
    device->ops->zero(device, buffer, unit->share * (size_t)zero->pg->world_size);
    return buffer;
}

float *zero_param_buffer(const Zero *zero, const ZeroUnit *unit)
{
    return zero->param_buffer[unit->number % 2];
}

static uint16_t *upper_half(const Zero *zero, const ZeroUnit *unit)
{
    CHECK(!zero->model->device->place.on_gpu, "this aside rounds on a CPU: --device cpu");
    return (uint16_t *)unit->params + unit->share * (size_t)zero->pg->world_size;
}

uint16_t *zero_narrow(const Zero *zero, const ZeroUnit *unit)
{
    uint16_t *half = upper_half(zero, unit);
    for (size_t i = 0; i < unit->share; i++)
        half[(size_t)zero->pg->rank * unit->share + i] = to_bf16(unit->own_params[i]);
    return half;
}

/* Works in place, because float i ends before number i + 1 of the upper half, the next to read. */
void zero_widen(const Zero *zero, const ZeroUnit *unit)
{
    if (unit->replicated)
        return;
    const uint16_t *half = upper_half(zero, unit);
    work_wait(unit->work);
    for (size_t i = 0; i < unit->share * (size_t)zero->pg->world_size; i++) {
        const float value = from_bf16(half[i]);
        memcpy(&unit->params[i], &value, sizeof value); // the same memory as `half`
    }
}

void zero_add_units(Zero *zero, int due, uint64_t first_step)
{
    const LrSchedule *schedule = &zero->optim->schedule;
    if (schedule->kind != LR_CONSTANT || schedule->warmup_steps > 0) {
        barrier(zero->pg);
        usage_error("--lr-schedule and --warmup-steps: layers that join later count their own "
                    "steps; leave it out, or use train_zero1");
    }
    for (; zero->num_added < due; zero->num_added++)
        zero->unit[zero->num_added].first_step = first_step;
}

void zero_step(const Zero *zero, const ZeroUnit *unit)
{
    Model share = *zero->model;
    share.step -= unit->first_step;
    share.params = unit->own_params;
    share.grads = unit->own_grads;
    share.numel = unit->share;
    Optimizer optim = *zero->optim;
    optim.model = &share;
    for (int s = 0; s < optim.num_states; s++)
        optim.state[s] += unit->own_offset;
    optim_step(&optim);
}

Divergence zero_divergence(const Zero *zero)
{
    Divergence divergence = model_divergence(zero->model);
    const double mine = divergence.weights > 0 ? divergence.weights : INFINITY;
    const double first = all_reduce_scalar(zero->pg, mine, REDUCE_MIN);
    divergence.weights = isfinite(first) ? (uint32_t)first : 0;
    return divergence;
}

/* Gathers a whole array, in the order of the parameters, from the shares of all ranks. Returns it
 * on rank 0, NULL elsewhere. own[u] is this rank's share of unit u. */
static float *gather_whole(const Zero *zero, const float *const own[])
{
    Device *device = zero->model->device;
    const bool is_root = zero->pg->rank == 0;
    const size_t ranks = (size_t)zero->pg->world_size;
    float *whole = is_root ? device_malloc(device, bytes_of(zero->numel)) : NULL;
    for (int u = 0; u < zero->num_units; u++) {
        const ZeroUnit *unit = &zero->unit[u];
        float *shares = is_root ? device_malloc(device, bytes_of(ranks * unit->share)) : NULL;
        gather(zero->pg, own[u], shares, unit->share, FLOAT32, 0);
        if (is_root) {
            device_copy(device, whole + unit->offset, shares, bytes_of(unit->numel),
                        COPY_ON_DEVICE);
            device_release(device, shares);
        }
    }
    return whole;
}

void zero_unshard(Zero *zero)
{
    Model *model = zero->model;
    const float *own[ZERO_MAX_UNITS];
    zero->sharded = (ZeroArrays){ .numel = model->numel, .params = model->params };
    for (int u = 0; u < zero->num_units; u++)
        own[u] = zero->unit[u].own_params;
    model->params = gather_whole(zero, own);
    model->numel = zero->numel;
    for (int s = 0; s < zero->optim->num_states; s++) {
        float **state = &zero->optim->state[s];
        zero->sharded.state[s] = *state;
        for (int u = 0; u < zero->num_units; u++)
            own[u] = *state + zero->unit[u].own_offset;
        *state = gather_whole(zero, own);
    }
}

void zero_reshard(Zero *zero)
{
    Device *device = zero->model->device;
    device_release(device, zero->model->params);
    zero->model->params = zero->sharded.params;
    zero->model->numel = zero->sharded.numel;
    for (int s = 0; s < zero->optim->num_states; s++) {
        device_release(device, zero->optim->state[s]);
        zero->optim->state[s] = zero->sharded.state[s];
    }
}
