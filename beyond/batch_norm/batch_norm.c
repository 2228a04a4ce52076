/*
 * Batch normalisation, forward and backward, on one rank or over all of them.
 *
 * Both passes need two sums for each channel; the rest is computed from these, element by element.
 * So over several ranks the only difference is an all_reduce of those sums. Sums are in double:
 * then the variance can be computed from sum and sum of squares, and one message is enough.
 */
#include "beyond/batch_norm/batch_norm.h"

void batch_norm_init(BatchNorm *norm, Device *device)
{
    const size_t channels = (size_t)norm->channels;
    norm->device = device;
    norm->sums = device_malloc(device, (2 * channels + 1) * sizeof *norm->sums);
    norm->mean = device_malloc(device, channels * sizeof *norm->mean);
    norm->invstd = device_malloc(device, channels * sizeof *norm->invstd);
}

void batch_norm_free(BatchNorm *norm, Device *device)
{
    device_release(device, norm->sums);
    device_release(device, norm->mean);
    device_release(device, norm->invstd);
}

/* Sums over the ranks, if there is a group. */
static void reduce_sums(const BatchNorm *norm, size_t count)
{
    if (norm->pg != NULL)
        all_reduce(norm->pg, norm->sums, count, FLOAT64, REDUCE_SUM);
}

void batch_norm_forward(BatchNorm *norm, int n, bool training, const float *x, float *y)
{
    const LayerOps *ops = layer_ops(norm->device);
    if (training) {
        ops->norm_sums(norm, n, x, NULL);
        reduce_sums(norm, 2 * (size_t)norm->channels + 1);
    }
    ops->norm_statistics(norm, training);
    ops->norm_forward(norm, n, x, y);
}

void batch_norm_backward(BatchNorm *norm, int n, const float *x, const float *dy, float *dx)
{
    const LayerOps *ops = layer_ops(norm->device);
    ops->norm_sums(norm, n, x, dy);
    ops->norm_grad_params(norm); // this rank's gradients, not yet summed
    reduce_sums(norm, 2 * (size_t)norm->channels);
    ops->norm_backward(norm, n, x, dy, dx); // each x affected mean and variance, and so every y
}
