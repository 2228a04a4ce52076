/*
 * layer.h - one layer of a network: its specification, its activations, and how it is run.
 *
 * Private to model.c. A layer is a convolution or a linear map together with the relu, pooling and
 * dropout after it.
 */
#ifndef COMMON_NN_LAYER_H
#define COMMON_NN_LAYER_H

#include "common/nn/device.h"

typedef enum { LAYER_CONV, LAYER_CONV_POOL, LAYER_LINEAR } LayerKind;

/* What a layer is. */
typedef struct {
    LayerKind kind;
    const char *weight_name, *bias_name; // PyTorch's
    ConvShape conv; // of the two convolutions, which have relu always
    int in, out; // of a linear layer
    bool relu; // of a linear layer
    float dropout; // share of its outputs dropped in training
} LayerSpec;

/* A layer at work; all pointers are to device memory. */
typedef struct {
    const LayerSpec *spec;
    int features; // of its output, per row
    float *weight, *bias, *dweight, *dbias; // slices of the model's arrays
    float *output, *doutput; // [max_batch][features]
    uint8_t *argmax; // [max_batch][features]; NULL where there is no pooling
    float scale; // factor of the units kept by dropout in the last forward pass
} Layer;

/* Name and shape of weight and bias; the model sets their offsets. */
void layer_shapes(const LayerSpec *spec, Tensor *weight, Tensor *bias);

/* Allocates activations. */
void layer_init(Layer *layer, const LayerSpec *spec, int max_batch, Device *device);
void layer_free(Layer *layer, Device *device);

/* Fills output. */
void layer_forward(Layer *layer, Device *device, int n, const float *input, DropoutKey key);

/* From doutput, which is overwritten: the first adds to dweight and dbias, the second writes dinput
 * unless it is NULL. A convolution does both in the first call, since they share work. */
void layer_grad_params(Layer *layer, Device *device, int n, const float *input, float *dinput);
void layer_grad_input(Layer *layer, Device *device, int n, float *dinput);

#endif
