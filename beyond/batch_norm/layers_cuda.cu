/*
 * The layers on a GPU: a thread for each number of layers.h, and for a sum over the batch a block,
 * whose threads have a part each.
 */
#include "common/nn/cuda/cuda_launch.h"

extern "C" {
#include "beyond/batch_norm/layers.h"
}

enum { BLOCK = 256 };

static int norm_numel(const BatchNorm *norm, int n)
{
    return n * norm->channels * norm->size * norm->size;
}

static __device__ int index_of_thread(void)
{
    return (int)my_index<BLOCK>();
}

/* ---- convolution ---- */

static __global__ void conv_kernel(Conv conv, int count, const float *x, float *y)
{
    const int i = index_of_thread();
    if (i < count)
        y[i] = conv_at(&conv, x, i);
}

static void conv(const Device *device, const Conv *conv, int n, const float *x, float *y)
{
    const int count = n * conv_out_numel(conv);
    LAUNCH(conv_kernel, cuda_blocks(count, BLOCK), BLOCK, stream_of(device), *conv, count, x, y);
}

static __global__ void conv_weight_kernel(Conv conv, int n, const float *x, const float *dy)
{
    __shared__ double tree[BLOCK];
    const int w = blockIdx.x, part = threadIdx.x;
    const double sum =
        block_sum<double, BLOCK>(conv_weight_sum(&conv, n, x, dy, w, part, BLOCK), tree, part);
    if (part == 0)
        conv.dweight[w] += (float)sum;
}

static void conv_grad_weight(const Device *device, const Conv *conv, int n, const float *x,
                             const float *dy)
{
    const int weights = conv->channels * conv->in_channels * TAPS;
    LAUNCH(conv_weight_kernel, weights, BLOCK, stream_of(device), *conv, n, x, dy);
}

static __global__ void conv_input_kernel(Conv conv, int count, const float *dy, float *dx)
{
    const int i = index_of_thread();
    if (i < count)
        dx[i] = conv_input_at(&conv, dy, i);
}

static void conv_grad_input(const Device *device, const Conv *conv, int n, const float *dy,
                            float *dx)
{
    const int count = n * conv_in_numel(conv);
    LAUNCH(conv_input_kernel, cuda_blocks(count, BLOCK), BLOCK, stream_of(device), *conv, count, dy,
           dx);
}

static __global__ void relu_kernel(size_t count, float *y)
{
    const size_t i = my_index<BLOCK>();
    if (i < count)
        y[i] = y[i] < 0 ? 0 : y[i]; // nan stays
}

static void relu(const Device *device, size_t count, float *y)
{
    LAUNCH(relu_kernel, cuda_blocks(count, BLOCK), BLOCK, stream_of(device), count, y);
}

/* ---- batch norm ---- */

static __global__ void sums_kernel(BatchNorm norm, int n, const float *x, const float *dy)
{
    __shared__ double tree[BLOCK];
    const int c = blockIdx.x, part = threadIdx.x;
    double sums[2];
    norm_channel_sums(&norm, n, x, dy, c, part, BLOCK, sums);
    for (int i = 0; i < 2; i++)
        sums[i] = block_sum<double, BLOCK>(sums[i], tree, part);
    if (part > 0)
        return;
    norm.sums[c] = sums[0];
    norm.sums[norm.channels + c] = sums[1];
    if (c == 0 && dy == NULL)
        norm.sums[2 * norm.channels] = (double)n * norm.size * norm.size;
}

static void norm_sums(const BatchNorm *norm, int n, const float *x, const float *dy)
{
    LAUNCH(sums_kernel, norm->channels, BLOCK, stream_of(norm->device), *norm, n, x, dy);
}

static __global__ void statistics_kernel(BatchNorm norm, bool training)
{
    norm_channel_statistics(&norm, training, threadIdx.x);
}

static void norm_statistics(const BatchNorm *norm, bool training)
{
    LAUNCH(statistics_kernel, 1, norm->channels, stream_of(norm->device), *norm, training);
}

static __global__ void forward_kernel(BatchNorm norm, int count, const float *x, float *y)
{
    const int i = index_of_thread();
    if (i < count)
        y[i] = norm_at(&norm, x, i);
}

static void norm_forward(const BatchNorm *norm, int n, const float *x, float *y)
{
    const int count = norm_numel(norm, n);
    LAUNCH(forward_kernel, cuda_blocks(count, BLOCK), BLOCK, stream_of(norm->device), *norm, count,
           x, y);
}

static __global__ void grad_params_kernel(BatchNorm norm)
{
    const int c = threadIdx.x;
    norm.dbias[c] += (float)norm.sums[c];
    norm.dweight[c] += (float)norm.sums[norm.channels + c];
}

static void norm_grad_params(const BatchNorm *norm)
{
    LAUNCH(grad_params_kernel, 1, norm->channels, stream_of(norm->device), *norm);
}

static __global__ void backward_kernel(BatchNorm norm, int count, const float *x, const float *dy,
                                       float *dx)
{
    const int i = index_of_thread();
    if (i < count)
        dx[i] = norm_input_at(&norm, x, dy, i);
}

static void norm_backward(const BatchNorm *norm, int n, const float *x, const float *dy, float *dx)
{
    const int count = norm_numel(norm, n);
    LAUNCH(backward_kernel, cuda_blocks(count, BLOCK), BLOCK, stream_of(norm->device), *norm, count,
           x, dy, dx);
}

const LayerOps layers_cuda = { conv,         conv_grad_weight, conv_grad_input,
                               relu,         norm_sums,        norm_statistics,
                               norm_forward, norm_grad_params, norm_backward };
