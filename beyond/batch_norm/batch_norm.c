/*
 * Batch normalisation, forward and backward, on one rank or over all of them.
 *
 * Both passes need two sums for each channel; the rest is computed from these, element by element.
 * So over several ranks the only difference is an all_reduce of those sums. Sums are in double:
 * then the variance can be computed from sum and sum of squares, and one message is enough.
 */
#include "beyond/batch_norm/batch_norm.h"

#include <math.h>

#include "common/base/log.h"

#define MOMENTUM 0.1f // PyTorch's defaults
#define EPS 1e-5

/* Two sums for each channel, and the number of elements of a channel. */
typedef struct {
    double first[BATCH_NORM_MAX_CHANNELS], second[BATCH_NORM_MAX_CHANNELS], count;
} Sums;

static const float *channel_of(const BatchNorm *norm, const float *images, int row, int c)
{
    const size_t pixels = (size_t)norm->size * norm->size;
    return images + ((size_t)row * norm->channels + c) * pixels;
}

/* Sums over the ranks, if there is a group. */
static void reduce_sums(const BatchNorm *norm, Sums *sums)
{
    if (norm->pg != NULL)
        all_reduce(norm->pg, sums, sizeof *sums / sizeof(double), FLOAT64, REDUCE_SUM);
}

/* Mean and variance of the batch; moves the running ones towards them. */
static void measure_batch(BatchNorm *norm, int n, const float *x)
{
    const int pixels = norm->size * norm->size;
    Sums sums = { .count = (double)n * pixels };
    for (int row = 0; row < n; row++)
        for (int c = 0; c < norm->channels; c++) {
            const float *in = channel_of(norm, x, row, c);
            for (int i = 0; i < pixels; i++) {
                sums.first[c] += in[i];
                sums.second[c] += (double)in[i] * in[i];
            }
        }
    reduce_sums(norm, &sums);

    norm->count = sums.count;
    for (int c = 0; c < norm->channels; c++) {
        const double mean = sums.first[c] / sums.count;
        const double var = fmax(sums.second[c] / sums.count - mean * mean, 0);
        const double unbiased = var * sums.count / (sums.count - 1); // for the running average only
        norm->mean[c] = (float)mean;
        norm->invstd[c] = (float)(1 / sqrt(var + EPS));
        norm->running_mean[c] += MOMENTUM * ((float)mean - norm->running_mean[c]);
        norm->running_var[c] += MOMENTUM * ((float)unbiased - norm->running_var[c]);
    }
    ++*norm->num_batches_tracked;
}

void batch_norm_forward(BatchNorm *norm, int n, bool training, const float *x, float *y)
{
    CHECK(norm->channels <= BATCH_NORM_MAX_CHANNELS, "%d channels: batch norm has room for %d",
          norm->channels, BATCH_NORM_MAX_CHANNELS);
    if (training)
        measure_batch(norm, n, x);
    for (int row = 0; row < n; row++)
        for (int c = 0; c < norm->channels; c++) {
            const float mean = training ? norm->mean[c] : norm->running_mean[c];
            const float invstd =
                training ? norm->invstd[c] : (float)(1 / sqrt((double)norm->running_var[c] + EPS));
            const float *in = channel_of(norm, x, row, c);
            float *out = y + (in - x);
            for (int i = 0; i < norm->size * norm->size; i++)
                out[i] = (in[i] - mean) * invstd * norm->weight[c] + norm->bias[c];
        }
}

void batch_norm_backward(BatchNorm *norm, int n, const float *x, const float *dy, float *dx)
{
    const int pixels = norm->size * norm->size;
    Sums sums = { .count = 0 }; // of dy, and of dy times the normalised x
    for (int row = 0; row < n; row++)
        for (int c = 0; c < norm->channels; c++) {
            const float *in = channel_of(norm, x, row, c), *dout = dy + (in - x);
            for (int i = 0; i < pixels; i++) {
                sums.first[c] += dout[i];
                sums.second[c] += (double)dout[i] * (in[i] - norm->mean[c]) * norm->invstd[c];
            }
        }
    for (int c = 0; c < norm->channels; c++) {
        norm->dbias[c] += (float)sums.first[c];
        norm->dweight[c] += (float)sums.second[c]; // this rank's gradients, not yet summed
    }
    reduce_sums(norm, &sums); // each x affects mean and variance, and so every y of its channel

    for (int row = 0; row < n; row++)
        for (int c = 0; c < norm->channels; c++) {
            const float mean_dy = (float)(sums.first[c] / norm->count);
            const float mean_dy_x = (float)(sums.second[c] / norm->count);
            const float *in = channel_of(norm, x, row, c), *dout = dy + (in - x);
            float *din = dx + (in - x);
            for (int i = 0; i < pixels; i++) {
                const float normalised = (in[i] - norm->mean[c]) * norm->invstd[c];
                din[i] = (dout[i] - mean_dy - normalised * mean_dy_x) * norm->invstd[c] *
                         norm->weight[c];
            }
        }
}
