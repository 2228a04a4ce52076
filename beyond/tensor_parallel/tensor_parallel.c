/*
 * The division is below the model: a table of kernels that computes a part of a layer wraps the
 * device's table. The model still computes whole layers, but its parameters have the shapes of
 * the parts, so the Reducer and the optimizer work on them unchanged.
 *
 * In memory, an output that is divided is dense, [rows][outputs / ranks], at the beginning of the
 * whole layer's output.
 */
#include "beyond/tensor_parallel/tensor_parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

static size_t bytes_of(size_t numel)
{
    return numel * sizeof(float);
}

/* ---- the kernels ---- */

static TensorParallel *current; // one per process; the device's table may be wrapped again
static DeviceOps part_ops;

static LayerSplit split_now(void)
{
    return current->split[current->layer];
}

/* Returns this rank's part of `count` if the layer is split this way, otherwise all of it. */
static int part(LayerSplit split, int count)
{
    return split_now() == split ? count / current->pg->world_size : count;
}

static void part_linear(Device *device, int n, int in, int out, bool relu, const float *x,
                        const float *weight, const float *bias, float *y)
{
    const bool is_sum = split_now() == BY_ROWS;
    in = part(BY_ROWS, in);
    out = part(BY_COLUMNS, out);
    current->inner->linear(device, n, in, out, relu && !is_sum, x, weight,
                           is_sum ? current->no_bias : bias, y);
    if (!is_sum)
        return;
    current->output = y;
    current->output_numel = (size_t)n * (size_t)out;
    current->num_outputs = out;
    current->bias = bias;
    current->relu = relu;
}

static void part_relu_grad(Device *device, size_t count, const float *y, float scale, float *dy)
{
    if (split_now() == BY_COLUMNS)
        count /= (size_t)current->pg->world_size;
    current->inner->relu_grad(device, count, y, scale, dy);
}

static void part_grad_params(Device *device, int n, int in, int out, const float *x,
                             const float *dy, float *dweight, float *dbias)
{
    current->inner->linear_grad_params(device, n, part(BY_ROWS, in), part(BY_COLUMNS, out), x, dy,
                                       dweight, dbias);
}

static void part_grad_input(Device *device, int n, int in, int out, const float *dy,
                            const float *weight, float *dx)
{
    current->inner->linear_grad_input(device, n, part(BY_ROWS, in), part(BY_COLUMNS, out), dy,
                                      weight, dx);
    if (split_now() == BY_COLUMNS) {
        current->input_grad = dx;
        current->input_grad_numel = (size_t)n * (size_t)in;
    }
}

/* Drops the units that one rank alone would drop. A mask depends on a unit's place in the whole
 * output, so the rows of the part are moved to their place there, and back. */
static void part_dropout(Device *device, int n, int features, DropoutKey key, float *y)
{
    const size_t own = (size_t)part(BY_COLUMNS, features), whole = (size_t)features;
    float *place = y + (size_t)current->pg->rank * own;
    for (int row = n - 1; own < whole && row >= 0; row--)
        memmove(place + (size_t)row * whole, y + (size_t)row * own, bytes_of(own));
    current->inner->dropout(device, n, features, key, y);
    for (int row = 0; own < whole && row < n; row++)
        memmove(y + (size_t)row * own, place + (size_t)row * whole, bytes_of(own));
}

void tensor_parallel_begin_layer(void *context, int layer, bool backward)
{
    (void)backward;
    TensorParallel *parts = context;
    parts->layer = layer;
    parts->output_numel = parts->input_grad_numel = 0;
}

void tensor_parallel_add_bias(TensorParallel *parts)
{
    const size_t out = (size_t)parts->num_outputs;
    for (size_t i = 0; i < parts->output_numel; i++) {
        const float sum = parts->output[i] + parts->bias[i % out];
        parts->output[i] = parts->relu && sum <= 0 ? 0 : sum; // nan passes, as it should
    }
}

/* ---- parts of the arrays ---- */

/* Copies the part of a parameter for rank `rank`, from an array [outputs][inputs] or back. */
static void copy_part(const TensorParallel *parts, int i, int rank, float *whole, float *part,
                      bool to_whole)
{
    const Tensor *all = &parts->whole.parameter[i], *own = &parts->own.parameter[i];
    const LayerSplit split = parts->split[i / 2];
    const bool is_bias = all->ndim == 1;
    if (split == BY_ROWS &&
        !is_bias) { // the part's columns of the array, one piece in each of its rows
        const size_t columns = own->shape[1];
        for (size_t row = 0; row < own->shape[0]; row++) {
            float *in_whole = whole + row * all->shape[1] + (size_t)rank * columns;
            float *in_part = part + row * columns;
            memcpy(to_whole ? in_whole : in_part, to_whole ? in_part : in_whole, bytes_of(columns));
        }
        return;
    }
    float *in_whole = whole + (split == BY_COLUMNS ? (size_t)rank * own->numel : 0);
    memcpy(to_whole ? in_whole : part, to_whole ? part : in_whole, bytes_of(own->numel));
}

/* Replaces an array of the whole model by this rank's part. */
static float *divide(const TensorParallel *parts, float *whole, size_t more)
{
    Device *device = parts->model->device;
    float *own = device_malloc(device, bytes_of(parts->own.numel + more));
    for (int i = 0; i < parts->model->num_parameters; i++)
        copy_part(parts, i, parts->pg->rank, whole + parts->whole.parameter[i].offset,
                  own + parts->own.parameter[i].offset, false);
    device_release(device, whole);
    return own;
}

/* Gathers a whole array from the parts. Returns it on rank 0, NULL elsewhere. */
static float *gather_whole(const TensorParallel *parts, float *own)
{
    Device *device = parts->model->device;
    ProcessGroup *pg = parts->pg;
    const bool is_root = pg->rank == 0;
    float *whole = is_root ? device_malloc(device, bytes_of(parts->whole.numel)) : NULL;
    for (int i = 0; i < parts->model->num_parameters; i++) {
        const size_t numel = parts->own.parameter[i].numel;
        if (numel == parts->whole.parameter[i].numel) { // every rank has it
            if (is_root)
                memcpy(whole + parts->whole.parameter[i].offset,
                       own + parts->own.parameter[i].offset, bytes_of(numel));
            continue;
        }
        float *pieces =
            is_root ? device_malloc(device, bytes_of(numel * (size_t)pg->world_size)) : NULL;
        gather(pg, own + parts->own.parameter[i].offset, pieces, numel, FLOAT32, 0);
        for (int rank = 0; is_root && rank < pg->world_size; rank++)
            copy_part(parts, i, rank, whole + parts->whole.parameter[i].offset,
                      pieces + (size_t)rank * numel, true);
        device_release(device, pieces);
    }
    return whole;
}

/* Finds pairs of consecutive linear layers, and returns their number. */
static int find_pairs(TensorParallel *parts)
{
    const Model *model = parts->model;
    int num_pairs = 0;
    for (int layer = 0; layer + 1 < model->num_parameters / 2; layer++) {
        const Tensor *weight = &model->parameter[2 * layer];
        if (weight[0].ndim != 2 || weight[2].ndim != 2)
            continue;
        parts->split[layer] = BY_COLUMNS;
        parts->split[++layer] = BY_ROWS;
        num_pairs++;
    }
    return num_pairs;
}

/* Sets the shapes of this rank's parts. */
static void shape_parts(TensorParallel *parts)
{
    const size_t ranks = (size_t)parts->pg->world_size;
    ParallelArrays *own = &parts->own;
    for (int i = 0; i < parts->model->num_parameters; i++) {
        Tensor *tensor = &own->parameter[i];
        const LayerSplit split = parts->split[i / 2];
        *tensor = parts->whole.parameter[i];
        tensor->offset = own->numel;
        if (split == BY_COLUMNS || (split == BY_ROWS && tensor->ndim == 2)) {
            size_t *size = &tensor->shape[split == BY_COLUMNS ? 0 : 1];
            if (*size % ranks != 0)
                usage_error("%s: %zu ranks cannot divide %zu numbers into equal parts",
                            tensor->name, ranks, *size);
            *size /= ranks;
            tensor->numel /= ranks;
        }
        own->numel += tensor->numel;
    }
}

/* Dies if the options or the model need what tensor parallelism here cannot do. */
static void check_options(const TensorParallel *parts, int num_pairs)
{
    if (num_pairs > 0 && parts->optim->clip_norm <= 0 && !parts->model->device->place.on_gpu)
        return;
    barrier(parts->pg->parent); // otherwise a rank that still receives the weights reports this one
    if (parts->model->device->place.on_gpu)
        usage_error("this aside adds the bias on a CPU: --device cpu");
    if (num_pairs > 0)
        usage_error("--clip-norm: each rank of this aside has parts of the gradients, and the norm "
                    "needs all of them; leave it out, or use train");
    usage_error(
        "--model %s: tensor parallelism divides two linear layers in a row; take cnn or mlp",
        parts->model->name);
}

/* Lets the model work with these arrays. */
static void use(TensorParallel *parts, const ParallelArrays *arrays)
{
    Model *model = parts->model;
    memcpy(model->parameter, arrays->parameter, sizeof model->parameter);
    model->numel = arrays->numel;
    model->params = arrays->params;
    for (int s = 0; s < parts->optim->num_states; s++)
        parts->optim->state[s] = arrays->state[s];
}

static void wrap_kernels(TensorParallel *parts, int most_outputs)
{
    Device *device = parts->model->device;
    parts->inner = device->ops;
    part_ops = *device->ops;
    part_ops.linear = part_linear;
    part_ops.relu_grad = part_relu_grad;
    part_ops.linear_grad_params = part_grad_params;
    part_ops.linear_grad_input = part_grad_input;
    part_ops.dropout = part_dropout;
    parts->no_bias = device_malloc(device, bytes_of((size_t)most_outputs));
    device->ops = &part_ops;
    current = parts;
}

void tensor_parallel_init(TensorParallel *parts, ProcessGroup *pg, Model *model, Optimizer *optim)
{
    *parts = (TensorParallel){ .pg = pg, .model = model, .optim = optim };
    check_options(parts, find_pairs(parts));
    ParallelArrays *whole = &parts->whole, *own = &parts->own;
    memcpy(whole->parameter, model->parameter, sizeof model->parameter);
    whole->numel = model->numel;
    shape_parts(parts);
    own->params = divide(parts, model->params, 0);
    model->grads = divide(parts, model->grads, 1); // one more for the Reducer
    for (int s = 0; s < optim->num_states; s++)
        own->state[s] = divide(parts, optim->state[s], 0);
    use(parts, own);

    size_t most_outputs = 0;
    for (int layer = 0; layer < model->num_parameters / 2; layer++) {
        const size_t offset = own->parameter[2 * layer].offset;
        model_place_layer(model, layer, model->params + offset, model->grads + offset);
        const size_t outputs = own->parameter[2 * layer].shape[0];
        most_outputs = outputs > most_outputs ? outputs : most_outputs;
    }
    wrap_kernels(parts, (int)most_outputs);
}

void tensor_parallel_free(TensorParallel *parts)
{
    Device *device = parts->model->device;
    device->ops = parts->inner;
    device_release(device, parts->no_bias);
}

Divergence tensor_parallel_divergence(const TensorParallel *parts)
{
    Divergence divergence = model_divergence(parts->model);
    const double mine = divergence.weights > 0 ? divergence.weights : INFINITY;
    const double first = all_reduce_scalar(parts->pg->parent, mine, REDUCE_MIN);
    divergence.weights = isfinite(first) ? (uint32_t)first : 0;
    return divergence;
}

void tensor_parallel_unshard(TensorParallel *parts)
{
    parts->whole.params = gather_whole(parts, parts->own.params);
    for (int s = 0; s < parts->optim->num_states; s++)
        parts->whole.state[s] = gather_whole(parts, parts->own.state[s]);
    use(parts, &parts->whole);
}

void tensor_parallel_reshard(TensorParallel *parts)
{
    Device *device = parts->model->device;
    device_release(device, parts->whole.params);
    for (int s = 0; s < parts->optim->num_states; s++)
        device_release(device, parts->whole.state[s]);
    use(parts, &parts->own);
}
