/*
 * The gradient of a convolution whose outputs' gradients are mostly zero. Pooling passes each
 * gradient to one of four outputs, and relu and dropout zero about half of those: in the second
 * layer of the cnn seven of eight outputs have none. So for each filter the nonzero ones are
 * listed, and each is scattered through its window twice: times the pixels into the filter's
 * gradient, and times the filter into the pixels'. Skipping zeros is exact, and takes less than
 * half the time of the two matrix products that it replaces.
 */
#include "extras/fast_cpu/cpu_kernels.h"
#include "extras/fast_cpu/cpu_product.h"

enum {
    RUN = 24, // outputs done together: their windows and gradients stay in the L1 cache
    SPAN = 6, // vectors of a window's line done together: three pixels of 32 channels on AVX-512
};

/* One filter's output gradients that are not zero. */
typedef struct {
    int count;
    int window[RUN]; // where in the image the window begins
    float value[RUN];
} Survivors;

/* Lists them for `count` outputs of one filter, which are `stride` apart in dy and argmax. argmax
 * names the corner of the 2 x 2 that a pooled output came from; NULL without pooling. */
static void list_survivors(Survivors *survivors, int count, int stride, const int *window,
                           const int *corner, const float *dy, const uint8_t *argmax)
{
    int survived = 0;
    for (int i = 0; i < count; i++) {
        survivors->window[survived] = window[i] + (argmax != NULL ? corner[argmax[i * stride]] : 0);
        survivors->value[survived] = dy[i * stride];
        survived += dy[i * stride] != 0; // a branch would be mispredicted half the time
    }
    survivors->count = survived;
}

/* Scatters the gradients through `vectors` vectors of the window, starting at offset `at`; to dx
 * only if it is wanted. */
INLINE void scatter(const Survivors *survivors, const int vectors, const bool to_dx, int at,
                    const float *filter, float *dfilter, const float *x, float *dx)
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
            if (to_dx)
                *(Vector *)(dx + place + j * LANES) += value * weight[j];
        }
    }
    for (int j = 0; j < vectors; j++)
        *(Vector *)(dfilter + j * LANES) = sum[j];
}

/* Scatters the gradients through a single number of the window. */
static void scatter_one(const Survivors *survivors, bool to_dx, int at, float filter,
                        float *dfilter, const float *x, float *dx)
{
    for (int i = 0; i < survivors->count; i++) {
        const ptrdiff_t place = survivors->window[i] + at;
        *dfilter += survivors->value[i] * x[place];
        if (to_dx)
            dx[place] += survivors->value[i] * filter;
    }
}

INLINE void scatter_window(ConvShape shape, const Survivors *survivors, const bool to_dx,
                           const float *filter, float *dfilter, const float *x, float *dx)
{
    const int line = shape.kernel * shape.in_channels;
    for (int ky = 0; ky < shape.kernel; ky++, filter += line, dfilter += line) {
        const int at = ky * shape.in_size * shape.in_channels;
        int j = 0;
        for (; j + SPAN * LANES <= line; j += SPAN * LANES)
            scatter(survivors, SPAN, to_dx, at + j, filter + j, dfilter + j, x, dx);
        for (; j + LANES <= line; j += LANES)
            scatter(survivors, 1, to_dx, at + j, filter + j, dfilter + j, x, dx);
        for (; j < line; j++)
            scatter_one(survivors, to_dx, at + j, filter[j], dfilter + j, x, dx);
    }
}

void cpu_scatter_grad(ConvShape shape, const float *x, const float *dy, const uint8_t *argmax,
                      const float *weight, float *dweight, float *dx)
{
    const int pool = argmax != NULL ? 2 : 1, size = conv_out_size(shape) / pool;
    const int channels = shape.out_channels, filter = conv_filter_numel(shape);
    const int right = shape.in_channels, below = shape.in_size * right;
    const int corner[4] = { 0, right, below, below + right };

    for (int i = 0; i < shape.in_size * below; i += 16) // the order of windows is not foreseeable
        __builtin_prefetch(x + i);
    for (int first = 0; first < size * size; first += RUN) {
        const int count = cpu_min(RUN, size * size - first);
        int window[RUN];
        for (int i = 0; i < count; i++)
            window[i] = pool * ((first + i) / size * below + (first + i) % size * right);
        for (int c = 0; c < channels; c++) {
            const ptrdiff_t output = (ptrdiff_t)first * channels + c;
            const ptrdiff_t at = (ptrdiff_t)c * filter;
            Survivors survivors;
            list_survivors(&survivors, count, channels, window, corner, dy + output,
                           argmax != NULL ? argmax + output : NULL);
            if (dx != NULL)
                scatter_window(shape, &survivors, true, weight + at, dweight + at, x, dx);
            else
                scatter_window(shape, &survivors, false, weight + at, dweight + at, x, dx);
        }
    }
}
