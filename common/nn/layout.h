/* layout.h - weights in PyTorch's order, and in ours. */
#ifndef COMMON_NN_LAYOUT_H
#define COMMON_NN_LAYOUT_H

#include "common/base/tensor.h"

/* One parameter from PyTorch's layout to ours and back, both in host memory. The rows of a weight
 * may be images of so many channels, which come first in PyTorch (CHW) and last in ours (HWC);
 * other rows count as images of one channel. */
void layout_import(const Tensor *tensor, int channels, const float *pytorch, float *ours);
void layout_export(const Tensor *tensor, int channels, const float *ours, float *pytorch);

#endif
