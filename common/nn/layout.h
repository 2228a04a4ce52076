/*
 * layout.h - weights in PyTorch's order, in host memory, and in ours, in device memory.
 *
 * All our devices keep an image as rows, columns, channels (HWC), and so each filter of a
 * convolution: then a line of the window under a filter is contiguous. PyTorch keeps the channels
 * first (CHW). The weight of a linear layer after a convolution has images as rows, too; other rows
 * count as images of one channel, where both orders are the same.
 */
#ifndef COMMON_NN_LAYOUT_H
#define COMMON_NN_LAYOUT_H

#include "common/base/memory.h"
#include "common/nn/device.h"

/* One parameter whose rows are images of so many channels. */
void layout_import(Device *device, const Tensor *tensor, int channels, const float *host,
                   float *array);
void layout_export(Device *device, const Tensor *tensor, int channels, const float *array,
                   float *host);

#endif
