/*
 * tensor_parallel.h - linear layers whose weights are divided among the ranks of a group.
 *
 * The pair of Megatron-LM (Shoeybi et al., "Megatron-LM: Training multi-billion parameter language
 * models using model parallelism", 2019), for two layers h = relu(x A + a), y = h B + b:
 *
 *     rank 0    h_0 = relu(x A_0 + a_0)    y_0 = h_0 B_0    A_r: some columns of A, B_r: the same
 *     rank 1    h_1 = relu(x A_1 + a_1)    y_1 = h_1 B_1         rows of B; y = y_0 + y_1 + b
 *
 * Each rank computes its part of h, and of all that follows up to the sum, from its own parts of
 * the weights. So a pair needs one sum over the ranks in the forward pass, of y, and one in the
 * backward pass, of the gradient of x. Its caller adds up both: see train_tensor_parallel.c.
 *
 * - Call tensor_parallel_init when all ranks have the same model. From then on the model has only
 *   this rank's parts: parameters, their shapes, gradients and the optimizer's state.
 * - Make tensor_parallel_begin_layer the model's hook before a layer; sum in the hook after it.
 * - Call tensor_parallel_unshard before rank 0 saves, and tensor_parallel_reshard afterwards.
 *
 * Weights are stored as PyTorch's, [outputs][inputs]: a column of A is a row of the array.
 */
#ifndef BEYOND_TENSOR_PARALLEL_TENSOR_PARALLEL_H
#define BEYOND_TENSOR_PARALLEL_TENSOR_PARALLEL_H

#include "beyond/tensor_parallel/device_mesh.h"
#include "common/nn/optim.h"

typedef enum { WHOLE, BY_COLUMNS, BY_ROWS } LayerSplit;

/* The model's arrays, and what they contain. */
typedef struct {
    Tensor parameter[MODEL_MAX_PARAMETERS];
    size_t numel;
    float *params, *grads, *state[2];
} ParallelArrays;

typedef struct {
    const DeviceOps *inner; // the wrapped table, which computes a layer or a part of one
    ProcessGroup *pg;
    Model *model;
    Optimizer *optim;
    LayerSplit split[MODEL_MAX_PARAMETERS / 2]; // how each layer is divided
    ParallelArrays whole, own; // `whole` has arrays only between unshard and reshard

    // What must be summed over pg after the last layer; nothing if numel is 0.
    float *output; // output of a layer BY_ROWS, before the bias
    size_t output_numel;
    float *input_grad; // input gradient of a layer BY_COLUMNS
    size_t input_grad_numel;

    // Private.
    int layer; // the current layer
    const float *bias; // bias of `output`
    int num_outputs; // elements of a row of `output`
    bool relu;
    float *no_bias; // zeros
} TensorParallel;

/* Divides each pair of linear layers: in the cnn fc1 and fc2, in the mlp fc1 and fc2, fc3 and fc4,
 * and so on. Other layers stay whole, and each rank of pg computes them for itself. All ranks must
 * pass the same model and state. Usage error if there is no pair, if the ranks of pg do not
 * divide it, for --clip-norm, which needs all gradients, or if the model is on a GPU. No
 * communication. */
void tensor_parallel_init(TensorParallel *parts, ProcessGroup *pg, Model *model, Optimizer *optim);
void tensor_parallel_free(TensorParallel *parts);

/* The model's LayerHook before a layer; its context is the TensorParallel. */
void tensor_parallel_begin_layer(void *parts, int layer, bool backward);

/* Adds the bias to `output`, and applies relu where the layer has one. Call it when the sum is
 * complete, as relu(a) + relu(b) is not relu(a + b), and a bias on each rank would count twice. */
void tensor_parallel_add_bias(TensorParallel *parts);

/* Returns model_divergence over all ranks of the job, each of which sees its own parts. Collective
 * on the group that pg is part of. */
Divergence tensor_parallel_divergence(const TensorParallel *parts);

/* Gives rank 0 of pg the whole parameters and the optimizer's whole state, for a checkpoint; the
 * others get NULL. tensor_parallel_reshard puts the parts back. Collective on pg; reshard is local.
 */
void tensor_parallel_unshard(TensorParallel *parts);
void tensor_parallel_reshard(TensorParallel *parts);

#endif
