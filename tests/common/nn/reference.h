/*
 * reference.h - the layers in double, in PyTorch's layout (channels first), as plain loops, with
 * which the kernels and the model are compared.
 */
#ifndef TESTS_COMMON_NN_REFERENCE_H
#define TESTS_COMMON_NN_REFERENCE_H

#include <math.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/nn/device.h"

/* y[n][out][size][size] = conv(x) + bias. */
static inline void reference_conv(ConvShape s, int n, const double *x, const double *weight,
                                  const double *bias, double *y)
{
    const int size = conv_out_size(s), k = s.kernel;
    for (int i = 0; i < n; i++)
        for (int o = 0; o < s.out_channels; o++)
            for (int r = 0; r < size; r++)
                for (int q = 0; q < size; q++) {
                    double sum = bias[o];
                    for (int c = 0; c < s.in_channels; c++)
                        for (int a = 0; a < k; a++)
                            for (int b = 0; b < k; b++)
                                sum += x[((i * s.in_channels + c) * s.in_size + r + a) * s.in_size +
                                         q + b] *
                                       weight[((o * s.in_channels + c) * k + a) * k + b];
                    *y++ = sum;
                }
}

/* Adds to dweight, dbias and dx. */
static inline void reference_conv_grad(ConvShape s, int n, const double *x, const double *weight,
                                       const double *dy, double *dweight, double *dbias, double *dx)
{
    const int size = conv_out_size(s), k = s.kernel;
    for (int i = 0; i < n; i++)
        for (int o = 0; o < s.out_channels; o++)
            for (int r = 0; r < size; r++)
                for (int q = 0; q < size; q++, dy++) {
                    dbias[o] += *dy;
                    for (int c = 0; *dy != 0 && c < s.in_channels; c++)
                        for (int a = 0; a < k; a++)
                            for (int b = 0; b < k; b++) {
                                const int at =
                                    ((i * s.in_channels + c) * s.in_size + r + a) * s.in_size + q +
                                    b;
                                const int w = ((o * s.in_channels + c) * k + a) * k + b;
                                dweight[w] += *dy * x[at];
                                dx[at] += *dy * weight[w];
                            }
                }
}

/* y[n][out] = x[n][in] weight[out][in]^T + bias. */
static inline void reference_linear(int n, int in, int out, const double *x, const double *weight,
                                    const double *bias, double *y)
{
    for (int i = 0; i < n; i++)
        for (int o = 0; o < out; o++) {
            double sum = bias[o];
            for (int k = 0; k < in; k++)
                sum += x[i * in + k] * weight[o * in + k];
            y[i * out + o] = sum;
        }
}

/* Adds to dweight, dbias and dx. */
static inline void reference_linear_grad(int n, int in, int out, const double *x,
                                         const double *weight, const double *dy, double *dweight,
                                         double *dbias, double *dx)
{
    for (int i = 0; i < n; i++)
        for (int o = 0; o < out; o++) {
            const double d = dy[i * out + o];
            dbias[o] += d;
            for (int k = 0; k < in; k++) {
                dweight[o * in + k] += d * x[i * in + k];
                dx[i * in + k] += d * weight[o * in + k];
            }
        }
}

/* Returns the index of corner `which` (0 to 3) of pooled unit `unit` in an image of side `size`. */
static inline int reference_corner(int size, int unit, int which)
{
    const int row = unit / (size / 2) * 2 + which / 2, column = unit % (size / 2) * 2 + which % 2;
    return row * size + column;
}

/* Computes the largest of each 2 x 2 of `images` images of one channel, and its corner. */
static inline void reference_pool(int images, int size, const double *x, double *y, uint8_t *argmax)
{
    const int units = (size / 2) * (size / 2);
    for (int i = 0; i < images; i++, x += size * size)
        for (int unit = 0; unit < units; unit++) {
            int best = 0;
            for (int which = 1; which < 4; which++)
                if (x[reference_corner(size, unit, which)] > x[reference_corner(size, unit, best)])
                    best = which;
            *y++ = x[reference_corner(size, unit, best)];
            *argmax++ = best;
        }
}

/* Writes dx: each gradient goes to the corner of its maximum. */
static inline void reference_pool_grad(int images, int size, const double *dy,
                                       const uint8_t *argmax, double *dx)
{
    const int units = (size / 2) * (size / 2);
    memset(dx, 0, (size_t)images * size * size * sizeof *dx);
    for (int i = 0; i < images; i++, dx += size * size)
        for (int unit = 0; unit < units; unit++)
            dx[reference_corner(size, unit, *argmax++)] += *dy++;
}

/* Computes the mean of the negative log likelihoods, and its gradient. */
static inline double reference_nll(int n, int classes, const double *logits, const int32_t *labels,
                                   double *dlogits)
{
    double loss = 0;
    for (int i = 0; i < n; i++, logits += classes, dlogits += classes) {
        double sum = 0;
        for (int c = 0; c < classes; c++)
            sum += exp(logits[c]);
        for (int c = 0; c < classes; c++)
            dlogits[c] = (exp(logits[c]) / sum - (c == labels[i])) / n;
        loss -= (logits[labels[i]] - log(sum)) / n;
    }
    return loss;
}

/* Returns true if dropout keeps this unit, as device.h defines it; unit counts in memory order. */
static inline bool reference_keeps(DropoutKey key, int row, int unit)
{
    const uint32_t counter[4] = { unit / 16, key.first_row + row * key.row_stride, key.layer,
                                  (uint32_t)key.step };
    const uint32_t seed[2] = { (uint32_t)key.seed, (uint32_t)(key.seed >> 32) };
    uint32_t random[4];
    philox(counter, seed, random);
    return (random[unit % 16 / 4] >> (8 * (unit % 4)) & 0xff) >= 256 * key.p;
}

#endif
