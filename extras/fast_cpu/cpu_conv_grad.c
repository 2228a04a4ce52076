/*
 * Gradients of a convolution, image by image. Each chunk of the batch sums its images' gradients of
 * weight and bias; then the chunks are summed, in order. A shard is two chunks, whose images
 * alternate, and the order is the shards' tree. If the input's gradient is needed too, skipping
 * zeros pays (cpu_scatter.c). The first layer needs none, and pixels of one channel do not
 * vectorise, so there the weight's gradient is a matrix product.
 */
#include <stdatomic.h>
#include <string.h>

#include "extras/fast_cpu/cpu_kernels.h"
#include "extras/fast_cpu/cpu_product.h"

/* Returns a chunk's number of floats: the sums for the weight, then those for the bias. */
static ptrdiff_t sums_numel(ConvShape shape)
{
    return (ptrdiff_t)shape.out_channels * (conv_filter_numel(shape) + 1);
}

/* Computes dweight as a product with a column per filter: dweight is [ky][kx][in][out]. */
static void product_grad(ConvShape shape, const float *x, const float *dy, float *dweight)
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

/* Sums the chunks' gradients; if transposed, they are in the layout of product_grad. */
static void add_chunks(Device *device, ConvShape shape, bool transposed, int chunks,
                       const float *sums, float *dweight, float *dbias)
{
    const int channels = shape.out_channels, filter = conv_filter_numel(shape);
    const int threads = cpu_threads(device, (double)chunks * channels * filter);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int c = 0; c < channels; c++)
        for (int chunk = 0; chunk < chunks; chunk++) {
            const float *sum = sums + chunk * sums_numel(shape);
            for (int i = 0; i < filter; i++)
                dweight[c * filter + i] += sum[transposed ? i * channels + c : c * filter + i];
            dbias[c] += sum[filter * channels + c];
        }
}

void cpu_conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                   const uint8_t *argmax, const float *weight, float scale, float *dy,
                   float *dweight, float *dbias, float *dx)
{
    const int channels = shape.out_channels;
    const int size = conv_out_size(shape) / (argmax != NULL ? 2 : 1);
    const ptrdiff_t in_numel = (ptrdiff_t)shape.in_size * shape.in_size * shape.in_channels;
    const ptrdiff_t out_numel = (ptrdiff_t)size * size * channels;
    const bool is_product = argmax == NULL && dx == NULL;
    const int shards = device->shards;
    const int chunks = shards > 0 ? CPU_CHUNKS_PER_SHARD * shards : cpu_min(n, CPU_CHUNKS);
    const int step = shards > 0 ? chunks : 1; // distance between two images of a chunk
    float *sums = cpu_scratch(device, CPU_CHUNKS * sums_numel(shape));

    atomic_int next = 0; // images take unequal time, because only nonzero numbers cost any
#pragma omp parallel num_threads(device->threads)
    for (int chunk; (chunk = next++) < chunks;) {
        float *sum = sums + chunk * sums_numel(shape);
        memset(sum, 0, sums_numel(shape) * sizeof *sum);
        const int first = shards > 0 ? chunk : cpu_share(n, chunk, chunks);
        const int end = shards > 0 ? n : cpu_share(n, chunk + 1, chunks);
        for (int i = first; i < end; i += step) {
            const float *image = x + i * in_numel;
            const uint8_t *corners = argmax != NULL ? argmax + i * out_numel : NULL;
            float *gradient = dy + i * out_numel, *dimage = dx != NULL ? dx + i * in_numel : NULL;
            plain_relu_grad(device, out_numel, y + i * out_numel, scale, gradient);
            cpu_add_rows(size * size, channels, gradient,
                         sum + channels * conv_filter_numel(shape));
            if (dimage != NULL)
                memset(dimage, 0, in_numel * sizeof *dimage);
            if (is_product)
                product_grad(shape, image, gradient, sum);
            else
                cpu_scatter_grad(shape, image, gradient, corners, weight, sum, dimage);
        }
    }

    if (shards > 0)
        cpu_tree_sum(chunks, sums_numel(shape), sums_numel(shape), sums);
    add_chunks(device, shape, is_product, shards > 0 ? 1 : chunks, sums, dweight, dbias);
}
