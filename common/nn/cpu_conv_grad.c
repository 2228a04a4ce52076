/*
 * Gradients of a convolution. Pooling hands each gradient to one of four outputs, and relu and
 * dropout silence about half of those: in the second layer of the cnn seven of eight outputs have
 * none. So its gradient is not a product of matrices: for each filter the survivors are listed, and
 * each is scattered through the window it came from, once into the filter's gradient (times the
 * pixels) and once into the pixels' (times the filter). Skipping a zero is exact.
 *
 * A first layer wants no gradient of its input, and its pixels have too few channels to make
 * vectors of; there the weights' gradient is a product after all.
 */
#include <string.h>

#include "common/nn/cpu_kernels.h"
#include "common/nn/cpu_product.h"

enum {
    RUN = 24, // units done together: their windows, and what is added there, fit into the L1 cache
    SPAN = 6, // vectors of a window's line: three pixels of 32 channels on AVX-512
};

/* The gradients of one filter's outputs that are not zero. */
typedef struct {
    int count;
    ptrdiff_t window[RUN]; // where in the image their window begins
    float value[RUN];
} Survivors;

/* Floats of a chunk's sums: those of the weight, then those of the bias. */
static ptrdiff_t sums_numel(ConvShape shape)
{
    return (ptrdiff_t)shape.out_channels * (conv_filter_numel(shape) + 1);
}

size_t cpu_conv_grad_scratch(ConvShape shape)
{
    return CPU_CHUNKS * sums_numel(shape);
}

/* Scatters them through `vectors` vectors of the window, which lie `at` behind its beginning. dx
 * may be NULL. */
INLINE void scatter(const Survivors *survivors, const int vectors, int at, const float *filter,
                    float *dfilter, const float *x, float *dx)
{
    Vector weight[SPAN], sum[SPAN];
    for (int j = 0; j < vectors; j++) {
        weight[j] = *(const Vector *)(filter + j * LANES);
        sum[j] = *(const Vector *)(dfilter + j * LANES);
    }
    for (int i = 0; i < survivors->count; i++) {
        const float value = survivors->value[i];
        const ptrdiff_t place = survivors->window[i] + at;
        for (int j = 0; j < vectors; j++) {
            sum[j] += value * *(const Vector *)(x + place + j * LANES);
            if (dx != NULL)
                *(Vector *)(dx + place + j * LANES) += value * weight[j];
        }
    }
    for (int j = 0; j < vectors; j++)
        *(Vector *)(dfilter + j * LANES) = sum[j];
}

/* The same for one number of the window. */
static void scatter_one(const Survivors *survivors, int at, float filter, float *dfilter,
                        const float *x, float *dx)
{
    for (int i = 0; i < survivors->count; i++) {
        const ptrdiff_t place = survivors->window[i] + at;
        *dfilter += survivors->value[i] * x[place];
        if (dx != NULL)
            dx[place] += survivors->value[i] * filter;
    }
}

static void scatter_window(ConvShape shape, const Survivors *survivors, const float *filter,
                           float *dfilter, const float *x, float *dx)
{
    const int line = shape.kernel * shape.in_channels;
    for (int ky = 0; ky < shape.kernel; ky++, filter += line, dfilter += line) {
        const int at = ky * shape.in_size * shape.in_channels;
        int j = 0;
        for (; j + SPAN * LANES <= line; j += SPAN * LANES)
            scatter(survivors, SPAN, at + j, filter + j, dfilter + j, x, dx);
        for (; j + LANES <= line; j += LANES)
            scatter(survivors, 1, at + j, filter + j, dfilter + j, x, dx);
        for (; j < line; j++)
            scatter_one(survivors, at + j, filter[j], dfilter + j, x, dx);
    }
}

/* Fills survivors from the outputs, or pooled outputs, number first, first + 1, ... of one filter.
 */
static void list_survivors(Survivors *survivors, int count, const int *window, int channels,
                           const float *dy, const uint8_t *argmax, const int *corner)
{
    int survived = 0;
    for (int i = 0; i < count; i++) {
        const float value = dy[i * channels];
        survivors->window[survived] = window[i] + (argmax ? corner[argmax[i * channels]] : 0);
        survivors->value[survived] = value;
        survived += value != 0; // a branch would be guessed wrong half the time
    }
    survivors->count = survived;
}

/* One image; argmax is NULL where there was no pooling. */
static void sparse_grad(ConvShape shape, const float *x, const float *dy, const uint8_t *argmax,
                        const float *weight, float *dweight, float *dx)
{
    const int pool = argmax != NULL ? 2 : 1, size = conv_out_size(shape) / pool;
    const int channels = shape.out_channels, filter = conv_filter_numel(shape);
    const int below = shape.in_size * shape.in_channels, right = shape.in_channels;
    const int corner[4] = { 0, right, below, below + right };

    for (int first = 0; first < size * size; first += RUN) {
        const int count = first + RUN < size * size ? RUN : size * size - first;
        int window[RUN];
        for (int i = 0; i < count; i++)
            window[i] = pool * ((first + i) / size * below + (first + i) % size * right);
        for (int c = 0; c < channels; c++) {
            const ptrdiff_t unit = (ptrdiff_t)first * channels + c;
            Survivors survivors;
            list_survivors(&survivors, count, window, channels, dy + unit,
                           argmax != NULL ? argmax + unit : NULL, corner);
            scatter_window(shape, &survivors, weight + (ptrdiff_t)c * filter,
                           dweight + (ptrdiff_t)c * filter, x, dx);
        }
    }
}

/* The weights' gradient of one image as a product, whose columns are the filters: dweight lies
 * as [ky][kx][in][out]. */
static void dense_grad(ConvShape shape, const float *x, const float *dy, float *dweight)
{
    const int size = conv_out_size(shape), channels = shape.out_channels;
    const ptrdiff_t line = shape.kernel * shape.in_channels;
    const ptrdiff_t in_row = (ptrdiff_t)shape.in_size * shape.in_channels;
    for (int ky = 0; ky < shape.kernel; ky++)
        cpu_product(&(Product){ .rows = line,
                                .columns = channels,
                                .outer = size,
                                .inner = size,
                                .a = x + ky * in_row,
                                .a_row = 1,
                                .a_outer = in_row,
                                .a_inner = shape.in_channels,
                                .b = dy,
                                .b_outer = (ptrdiff_t)size * channels,
                                .b_inner = channels,
                                .c = dweight + ky * line * channels,
                                .c_row = channels,
                                .add = true });
}

/* Adds up what the chunks found. */
static void add_chunks(Device *device, ConvShape shape, bool dense, int chunks, const float *sums,
                       float *dweight, float *dbias)
{
    const int channels = shape.out_channels, filter = conv_filter_numel(shape);
#pragma omp parallel for num_threads(device->threads) if (filter * channels > 4096)
    for (int c = 0; c < channels; c++)
        for (int chunk = 0; chunk < chunks; chunk++) {
            const float *sum = sums + chunk * sums_numel(shape);
            for (int i = 0; i < filter; i++)
                dweight[c * filter + i] += sum[dense ? i * channels + c : c * filter + i];
            dbias[c] += sum[filter * channels + c];
        }
}

static void conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                      const uint8_t *argmax, const float *weight, float scale, float *dy,
                      float *dweight, float *dbias, float *dx)
{
    const int size = conv_out_size(shape) / (argmax != NULL ? 2 : 1);
    const ptrdiff_t in_numel = (ptrdiff_t)shape.in_size * shape.in_size * shape.in_channels;
    const ptrdiff_t out_numel = (ptrdiff_t)size * size * shape.out_channels;
    const bool dense = argmax == NULL && dx == NULL;
    const int chunks = n < CPU_CHUNKS ? n : CPU_CHUNKS;
    float *sums = cpu_scratch(device, cpu_conv_grad_scratch(shape));

#pragma omp parallel for num_threads(device->threads) schedule(dynamic)
    for (int chunk = 0; chunk < chunks; chunk++) {
        float *sum = sums + chunk * sums_numel(shape);
        memset(sum, 0, sums_numel(shape) * sizeof *sum);
        const int end = cpu_share(n, chunk + 1, chunks);
        for (int i = cpu_share(n, chunk, chunks); i < end; i++) {
            const float *image = x + i * in_numel;
            float *gradient = dy + i * out_numel;
            cpu_relu_gate(out_numel, y + i * out_numel, scale, gradient);
            cpu_add_rows(size * size, shape.out_channels, gradient,
                         sum + shape.out_channels * conv_filter_numel(shape));
            if (dx != NULL)
                memset(dx + i * in_numel, 0, in_numel * sizeof *dx);
            if (dense)
                dense_grad(shape, image, gradient, sum);
            else
                sparse_grad(shape, image, gradient, argmax != NULL ? argmax + i * out_numel : NULL,
                            weight, sum, dx != NULL ? dx + i * in_numel : NULL);
        }
    }

    add_chunks(device, shape, dense, chunks, sums, dweight, dbias);
}

void cpu_conv_relu_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                        const float *weight, float scale, float *dy, float *dweight, float *dbias,
                        float *dx)
{
    conv_grad(device, shape, n, x, y, NULL, weight, scale, dy, dweight, dbias, dx);
}

void cpu_conv_relu_pool_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                             const uint8_t *argmax, const float *weight, float scale, float *dy,
                             float *dweight, float *dbias, float *dx)
{
    conv_grad(device, shape, n, x, y, argmax, weight, scale, dy, dweight, dbias, dx);
}
