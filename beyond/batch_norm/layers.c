/* The layers on the host: loops over the functions of layers.h. */
#include "beyond/batch_norm/layers.h"

static void conv(const Device *device, const Conv *conv, int n, const float *x, float *y)
{
    (void)device;
    for (int i = 0; i < n * conv_out_numel(conv); i++)
        y[i] = conv_at(conv, x, i);
}

static void conv_grad_weight(const Device *device, const Conv *conv, int n, const float *x,
                             const float *dy)
{
    (void)device;
    for (int w = 0; w < conv->channels * conv->in_channels * TAPS; w++)
        conv->dweight[w] += (float)conv_weight_sum(conv, n, x, dy, w, 0, 1);
}

static void conv_grad_input(const Device *device, const Conv *conv, int n, const float *dy,
                            float *dx)
{
    (void)device;
    for (int i = 0; i < n * conv_in_numel(conv); i++)
        dx[i] = conv_input_at(conv, dy, i);
}

static void relu(const Device *device, size_t count, float *y)
{
    (void)device;
    for (size_t i = 0; i < count; i++)
        y[i] = y[i] < 0 ? 0 : y[i]; // nan stays
}

static void norm_sums(const BatchNorm *norm, int n, const float *x, const float *dy)
{
    for (int c = 0; c < norm->channels; c++) {
        double sums[2];
        norm_channel_sums(norm, n, x, dy, c, 0, 1, sums);
        norm->sums[c] = sums[0];
        norm->sums[norm->channels + c] = sums[1];
    }
    if (dy == NULL)
        norm->sums[2 * norm->channels] = (double)n * norm->size * norm->size;
}

static void norm_statistics(const BatchNorm *norm, bool training)
{
    for (int c = 0; c < norm->channels; c++)
        norm_channel_statistics(norm, training, c);
}

static void norm_forward(const BatchNorm *norm, int n, const float *x, float *y)
{
    for (int i = 0; i < n * norm->channels * norm->size * norm->size; i++)
        y[i] = norm_at(norm, x, i);
}

static void norm_grad_params(const BatchNorm *norm)
{
    for (int c = 0; c < norm->channels; c++) {
        norm->dbias[c] += (float)norm->sums[c];
        norm->dweight[c] += (float)norm->sums[norm->channels + c];
    }
}

static void norm_backward(const BatchNorm *norm, int n, const float *x, const float *dy, float *dx)
{
    for (int i = 0; i < n * norm->channels * norm->size * norm->size; i++)
        dx[i] = norm_input_at(norm, x, dy, i);
}

const LayerOps layers_host = { conv,         conv_grad_weight, conv_grad_input,
                               relu,         norm_sums,        norm_statistics,
                               norm_forward, norm_grad_params, norm_backward };
