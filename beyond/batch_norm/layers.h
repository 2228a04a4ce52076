/*
 * layers.h - convolution and batch norm, number by number: what the host computes in loops
 * (layers.c), and a GPU with a thread for each number (layers_cuda.cu).
 *
 * Sums over the batch come in parts, of which part `part` has every parts-th element. The host
 * takes the whole sum as one part. On a GPU each thread of a block takes one, and then the block
 * adds them up. These kernels are written to be read: extras/gpu_ladder shows how to make a
 * convolution fast.
 */
#ifndef BEYOND_LAYERS_H
#define BEYOND_LAYERS_H

#include "common/comm/process_group.h"
#include "common/nn/device.h"

enum { KERNEL = 3, STRIDE = 2, TAPS = KERNEL * KERNEL };
#define MOMENTUM 0.1f // batch norm's momentum and epsilon: PyTorch's defaults
#define EPS 1e-5

/* A convolution of 3 x 3 with stride 2, without bias. */
typedef struct {
    int in_channels, in_size, channels, size;
    const float *weight; // [channels][in_channels][3][3]
    float *dweight;
} Conv;

/* A batch norm (batch_norm.h): images are [n][channels][size][size]. */
typedef struct {
    const Device *device;
    int channels, size;
    const float *weight, *bias; // [channels]; borrowed, as are the next three lines
    float *dweight, *dbias;
    float *running_mean, *running_var; // buffers: averages over the batches so far
    int64_t *num_batches_tracked; // a buffer, too: the number of these batches
    ProcessGroup *pg; // ranks that share the batch (SyncBatchNorm); NULL for this rank alone

    double *sums; // two for each channel, then the number of elements of a channel
    // Statistics of the last forward pass; a backward pass needs those of the batch.
    float *mean, *invstd; // 1 / sqrt(variance + 1e-5)
} BatchNorm;

/* Every array is device memory. n is the number of rows. */
typedef struct {
    void (*conv)(const Device *device, const Conv *conv, int n, const float *x, float *y);
    void (*conv_grad_weight)(const Device *device, const Conv *conv, int n, const float *x,
                             const float *dy); // adds to dweight
    void (*conv_grad_input)(const Device *device, const Conv *conv, int n, const float *dy,
                            float *dx); // writes
    void (*relu)(const Device *device, size_t count, float *y);
    void (*norm_sums)(const BatchNorm *norm, int n, const float *x, const float *dy); // dy or NULL
    void (*norm_statistics)(const BatchNorm *norm, bool training);
    void (*norm_forward)(const BatchNorm *norm, int n, const float *x, float *y);
    void (*norm_grad_params)(const BatchNorm *norm); // adds
    void (*norm_backward)(const BatchNorm *norm, int n, const float *x, const float *dy, float *dx);
} LayerOps;

extern const LayerOps layers_host, layers_cuda;

static inline const LayerOps *layer_ops(const Device *device)
{
    return device->place.on_gpu ? &layers_cuda : &layers_host;
}

/* ---- convolution ---- */

KERNEL_INLINE int conv_out_numel(const Conv *conv) // elements of a row
{
    return conv->channels * conv->size * conv->size;
}

KERNEL_INLINE int conv_in_numel(const Conv *conv)
{
    return conv->in_channels * conv->in_size * conv->in_size;
}

/* Returns the index of the pixel of an input channel under the filter's tap k for output `at`. */
KERNEL_INLINE int under_tap(const Conv *conv, int at, int k)
{
    const int y = STRIDE * (at / conv->size) + k / KERNEL;
    const int x = STRIDE * (at % conv->size) + k % KERNEL;
    return y * conv->in_size + x;
}

/* Returns y[i]. */
KERNEL_INLINE float conv_at(const Conv *conv, const float *x, int i)
{
    const int places = conv->size * conv->size, pixels = conv->in_size * conv->in_size;
    const int row = i / conv_out_numel(conv), c = i / places % conv->channels;
    float sum = 0;
    for (int in = 0; in < conv->in_channels; in++) {
        const float *image = x + (row * conv->in_channels + in) * pixels;
        const float *w = conv->weight + (c * conv->in_channels + in) * TAPS;
        for (int k = 0; k < TAPS; k++)
            sum += w[k] * image[under_tap(conv, i % places, k)];
    }
    return sum;
}

/* Returns a part of weight w's gradient, in double because w acts at all places of all rows. */
KERNEL_INLINE double conv_weight_sum(const Conv *conv, int n, const float *x, const float *dy,
                                     int w, int part, int parts)
{
    const int places = conv->size * conv->size, pixels = conv->in_size * conv->in_size;
    const int k = w % TAPS, in = w / TAPS % conv->in_channels, c = w / TAPS / conv->in_channels;
    double sum = 0;
    for (int i = part; i < n * places; i += parts) {
        const int row = i / places, at = i % places;
        const float *image = x + (row * conv->in_channels + in) * pixels;
        const float *grads = dy + (row * conv->channels + c) * places;
        sum += (double)grads[at] * image[under_tap(conv, at, k)];
    }
    return sum;
}

/* Returns dx[i], a sum over the outputs whose filter covered the pixel. */
KERNEL_INLINE float conv_input_at(const Conv *conv, const float *dy, int i)
{
    const int places = conv->size * conv->size, pixels = conv->in_size * conv->in_size;
    const int row = i / conv_in_numel(conv), in = i / pixels % conv->in_channels;
    const int y = i % pixels / conv->in_size, x = i % conv->in_size;
    const int first_y = y < KERNEL ? 0 : (y - KERNEL + STRIDE) / STRIDE;
    const int first_x = x < KERNEL ? 0 : (x - KERNEL + STRIDE) / STRIDE;
    float sum = 0;
    for (int c = 0; c < conv->channels; c++) {
        const float *grads = dy + (row * conv->channels + c) * places;
        const float *w = conv->weight + (c * conv->in_channels + in) * TAPS;
        for (int oy = first_y; oy * STRIDE <= y && oy < conv->size; oy++)
            for (int ox = first_x; ox * STRIDE <= x && ox < conv->size; ox++)
                sum +=
                    grads[oy * conv->size + ox] * w[(y - oy * STRIDE) * KERNEL + x - ox * STRIDE];
    }
    return sum;
}

/* ---- batch norm ---- */

KERNEL_INLINE int norm_channel(const BatchNorm *norm, int i) // channel of element i
{
    return i / (norm->size * norm->size) % norm->channels;
}

KERNEL_INLINE float normalised(const BatchNorm *norm, int c, float x)
{
    return (x - norm->mean[c]) * norm->invstd[c];
}

/* Computes a part of the two sums of channel c: of x and its square; with dy, of dy and of dy times
 * the normalised x. */
KERNEL_INLINE void norm_channel_sums(const BatchNorm *norm, int n, const float *x, const float *dy,
                                     int c, int part, int parts, double sums[2])
{
    const int pixels = norm->size * norm->size;
    sums[0] = sums[1] = 0;
    for (int i = part; i < n * pixels; i += parts) {
        const int at = (i / pixels * norm->channels + c) * pixels + i % pixels;
        const double first = dy != NULL ? dy[at] : x[at];
        sums[0] += first;
        sums[1] += dy != NULL ? first * (x[at] - norm->mean[c]) * norm->invstd[c] : first * first;
    }
}

/* Sets mean and variance of channel c: in training to the batch's, from its sums, which also update
 * the running ones; otherwise to the running ones. */
KERNEL_INLINE void norm_channel_statistics(const BatchNorm *norm, bool training, int c)
{
    double mean = norm->running_mean[c], var = norm->running_var[c];
    if (training) {
        const double count = norm->sums[2 * norm->channels];
        mean = norm->sums[c] / count;
        var = fmax(norm->sums[norm->channels + c] / count - mean * mean, 0.0);
        const double unbiased = var * count / (count - 1); // for the running average only
        norm->running_mean[c] += MOMENTUM * ((float)mean - norm->running_mean[c]);
        norm->running_var[c] += MOMENTUM * ((float)unbiased - norm->running_var[c]);
        *norm->num_batches_tracked += c == 0;
    }
    norm->mean[c] = (float)mean;
    norm->invstd[c] = (float)(1 / sqrt(var + EPS));
}

/* Returns y[i]. */
KERNEL_INLINE float norm_at(const BatchNorm *norm, const float *x, int i)
{
    const int c = norm_channel(norm, i);
    return normalised(norm, c, x[i]) * norm->weight[c] + norm->bias[c];
}

/* Returns dx[i]. */
KERNEL_INLINE float norm_input_at(const BatchNorm *norm, const float *x, const float *dy, int i)
{
    const int c = norm_channel(norm, i);
    const double count = norm->sums[2 * norm->channels];
    const float mean_dy = (float)(norm->sums[c] / count);
    const float mean_dy_x = (float)(norm->sums[norm->channels + c] / count);
    return (dy[i] - mean_dy - normalised(norm, c, x[i]) * mean_dy_x) * norm->invstd[c] *
           norm->weight[c];
}

#endif
