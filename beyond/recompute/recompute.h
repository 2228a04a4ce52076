/*
 * recompute.h - layers whose activations are not kept for the backward pass, but computed again.
 *
 * Activation checkpointing (Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory
 * cost", 2016; torch/utils/checkpoint.py): the layers form segments of k layers. The output of the
 * last layer of each segment, its border, has a buffer of its own. The outputs inside a segment
 * are in k - 1 buffers that all segments share, so the forward pass overwrites them:
 *
 *     layer     0  1 | 2  3 | 4  5 | 6  7      k = 2
 *     buffer    S  A | S  B | S  C | S  D      S is shared: after the forward pass it has layer 6
 *
 * Before the backward pass enters a segment, its caller computes the layers inside it again, from
 * the border before (train_recompute.c). The same kernels get the same numbers, and the
 * same dropout mask, so all results are equal bit for bit.
 *
 * - Call recompute_init when the model is made. From then on it has only these buffers.
 * - Call recompute_begin_layer first in the model's hook before a layer.
 */
#ifndef BEYOND_RECOMPUTE_RECOMPUTE_H
#define BEYOND_RECOMPUTE_RECOMPUTE_H

#include "common/nn/model.h"

/* The arguments of a layer's forward pass; linear or a convolution. */
typedef struct {
    bool is_conv, relu; // relu is for linear layers only
    ConvShape shape; // set for a convolution
    int n, in, out; // rows; numbers in a row, `in` of a linear layer only
    const float *x, *weight, *bias;
    float *y; // the model's array for the output, which is released
    uint8_t *argmax; // the model's array, released, too; NULL without pooling
    DropoutKey key; // p is 0 without dropout
} LayerCall;

typedef struct {
    float *output;
    uint8_t *argmax; // NULL if no layer with pooling uses this buffer
    size_t output_bytes, argmax_bytes;
} ActivationBuffer;

typedef struct {
    int segment; // the segment whose layers the shared buffers hold (-1 if none yet)

    // Private.
    const DeviceOps *inner; // the wrapped table, which computes the layers
    Model *model;
    int segment_layers, num_layers;
    int layer; // the current layer
    LayerCall call[MODEL_MAX_PARAMETERS / 2]; // each layer's arguments in the last forward pass
    ActivationBuffer border[MODEL_MAX_PARAMETERS / 2]; // output of each segment's last layer
    ActivationBuffer shared[MODEL_MAX_PARAMETERS / 2]; // outputs of the layers inside a segment
} Recompute;

/* Replaces the model's activations by the buffers for segments of segment_layers layers. The
 * dataset suits the model; its rows are not read. Usage error if the model is on a GPU. Local. */
void recompute_init(Recompute *kept, Model *model, const Dataset *dataset, int segment_layers);
void recompute_free(Recompute *kept);

/* Sets the layer that the next kernels belong to. */
void recompute_begin_layer(Recompute *kept, int layer);

/* Computes the output of a layer inside a segment again, as the last forward pass did. Its input
 * must be there: the border before the segment, or a layer that was computed again before. */
void recompute_layer(Recompute *kept, int layer);

#endif
