/*
 * batch_norm.h - a layer that normalises each channel over the batch, and keeps running averages.
 *
 * Training uses mean and variance of the batch; evaluation uses running averages of both. These are
 * buffers: they belong to the model's state, but no gradient changes them, so DDP's all-reduce does
 * not keep them equal. Names and formulas are those of torch.nn.BatchNorm2d; with a process group,
 * of torch.nn.SyncBatchNorm (Ioffe and Szegedy, "Batch normalization", 2015).
 *
 * Images are [rows][channels][size][size], PyTorch's layout. All arrays are in the device's memory.
 */
#ifndef BEYOND_BATCH_NORM_H
#define BEYOND_BATCH_NORM_H

#include "beyond/batch_norm/layers.h"

void batch_norm_init(BatchNorm *norm, Device *device); // allocates sums, mean and invstd
void batch_norm_free(BatchNorm *norm, Device *device);

/* y = (x - mean) / sqrt(var + 1e-5) * weight + bias, x and y [n][channels][size][size], n > 0. In
 * training mean and variance are the batch's, and the running ones move a tenth of the way towards
 * them; in evaluation they are the running ones. Collective in training if there is a group, whose
 * ranks may have different n. */
void batch_norm_forward(BatchNorm *norm, int n, bool training, const float *x, float *y);

/* After a forward pass in training, with its x. Adds this rank's gradients to dweight and dbias
 * (DDP averages them); writes dx, which may be dy. Collective if there is a group. */
void batch_norm_backward(BatchNorm *norm, int n, const float *x, const float *dy, float *dx);

#endif
