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
 * Before the backward pass enters a segment, its caller lets the layers inside it compute again,
 * from the border before: see train_recompute.c. The same kernels get the same numbers, and the
 * same dropout mask, so all results are equal bit for bit.
 *
 * - Call recompute_init when the model is made. From then on it has only these buffers.
 * - Call recompute_begin_layer first in the model's hook before a layer.
 */
#ifndef BEYOND_RECOMPUTE_RECOMPUTE_H
#define BEYOND_RECOMPUTE_RECOMPUTE_H

#include "common/nn/model.h"

/* What the model asks of a layer's forward pass; linear or a convolution. */
typedef struct {
    bool is_conv, relu; // relu: of a linear layer
    ConvShape shape; // of a convolution
    int n, in, out; // rows; numbers in a row, `in` of a linear layer only
    const float *x, *weight, *bias;
    float *y; // where the model believes its output to be
    uint8_t *argmax; // likewise; NULL where there is no pooling
    DropoutKey key; // p is 0: no dropout
} LayerCall;

typedef struct {
    float *output;
    uint8_t *argmax; // NULL: no layer with pooling uses this buffer
    size_t output_bytes, argmax_bytes;
} ActivationBuffer;

typedef struct {
    int segment; // whose layers the shared buffers have; -1: none yet

    // Private.
    const DeviceOps *inner; // what computes a layer
    Model *model;
    int segment_layers, num_layers;
    int layer; // now computed
    LayerCall call[MODEL_MAX_PARAMETERS / 2]; // of each layer, in the last forward pass
    ActivationBuffer border[MODEL_MAX_PARAMETERS / 2]; // of each segment
    ActivationBuffer shared[MODEL_MAX_PARAMETERS / 2]; // of the layers inside a segment
} Recompute;

/* Replaces the model's activations by the buffers for segments of segment_layers layers. dataset:
 * one that the model takes; its rows are not read. Usage error if the model is on a GPU. Local. */
void recompute_init(Recompute *kept, Model *model, const Dataset *dataset, int segment_layers);
void recompute_free(Recompute *kept);

/* Tells which layer the next kernels belong to. */
void recompute_begin_layer(Recompute *kept, int layer);

/* Computes the output of a layer inside a segment again, as the last forward pass did. Its input
 * must be there: the border before the segment, or a layer that was computed again before. */
void recompute_layer(Recompute *kept, int layer);

#endif
