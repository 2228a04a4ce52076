/* Convolutions as products of matrices (cuda_im2col.cu), a chunk of images at a time: the matrix of
 * windows has nine times the numbers of the images, but a chunk's stays in the L2 cache from the
 * kernel that writes it to the product that reads it, and never goes through the slower memory. The
 * operations after a product (bias, relu, pooling) are one pass over its result, while that is
 * still in the cache.
 *
 * Backward: dz, the gradient of the product's result, gives dW = dz^T columns, and dcolumns = dz W,
 * whose sum is the input's gradient; dcolumns overwrites the columns. A first convolution of one
 * channel has kernels of its own (cuda_first_conv.cu). */
#include "common/nn/cuda/cuda_state.h"

static bool is_first(ConvShape shape)
{
    return shape.in_channels == 1 && shape.kernel == 3;
}

/* Elements per image in each of the matrices. */
static size_t windows(ConvShape shape)
{
    return (size_t)conv_out_size(shape) * conv_out_size(shape);
}

static size_t columns_numel(ConvShape shape)
{
    return windows(shape) * conv_filter_numel(shape);
}

static size_t weight_numel(ConvShape shape)
{
    return (size_t)shape.out_channels * conv_filter_numel(shape);
}

static int max_images(const Device *device, ConvShape shape)
{
    const size_t bytes = columns_numel(shape) * amp_bytes(device->amp);
    const size_t images = cuda_state(device)->chunk_bytes / bytes;
    return images > 0 ? (int)images : 1;
}

/* Returns how many of n images make a chunk; chunks have about the same size. */
static int chunk_images(const Device *device, ConvShape shape, int n)
{
    const int most = max_images(device, shape), chunks = (n + most - 1) / most;
    return (n + chunks - 1) / chunks;
}

/* Scratch memory of a chunk. */
typedef struct {
    const void *weight; // in the products' type
    float *partial; // partial sums
    void *columns;
    void *z; // the product's result, float32; or its gradient, in the products' type
} Workbench;

void cuda_conv_reserve(Device *device, ConvShape shape)
{
    const size_t images = (size_t)max_images(device, shape), size = amp_bytes(device->amp);
    size_t bytes = cuda_scratch_piece(weight_numel(shape) * size) +
                   cuda_scratch_piece(CUDA_SUM_PARTS * sizeof(float) * shape.out_channels) +
                   cuda_scratch_piece(images * columns_numel(shape) * size) +
                   cuda_scratch_piece(images * windows(shape) * shape.out_channels * sizeof(float));
    if (is_first(shape)) {
        const size_t sums = (size_t)cuda_first_conv_parts(shape, 1 << 20) * shape.out_channels;
        bytes += cuda_scratch_piece(sums * 10 * sizeof(float));
    }
    cuda_scratch_reserve(device, bytes);
}

static Workbench workbench(Device *device, ConvShape shape, int images, const float *weight)
{
    size_t used = 0;
    Workbench bench;
    bench.weight = cuda_operand(device, device->amp, &used, weight_numel(shape), weight);
    bench.partial =
        cuda_scratch(device, &used, CUDA_SUM_PARTS * sizeof(float) * shape.out_channels);
    bench.columns =
        cuda_scratch(device, &used, images * columns_numel(shape) * amp_bytes(device->amp));
    bench.z =
        cuda_scratch(device, &used, images * windows(shape) * shape.out_channels * sizeof(float));
    return bench;
}

/* Computes z = columns W^T for the images at x. */
static void multiply(Device *device, ConvShape shape, int images, const float *x,
                     const Workbench *bench, float *z)
{
    cuda_im2col(shape, images, device->amp, x, bench->columns, cuda_state(device)->stream);
    cuda_product(device, &(CudaProduct){ images * (int)windows(shape), shape.out_channels,
                                         conv_filter_numel(shape), device->amp, bench->columns,
                                         bench->weight, .b_transposed = true, .c = z });
}

static size_t in_numel(ConvShape shape)
{
    return (size_t)shape.in_size * shape.in_size * shape.in_channels;
}

void cuda_conv_relu(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                    const float *bias, float *y, uint8_t *argmax)
{
    const cudaStream_t stream = cuda_state(device)->stream;
    if (is_first(shape) && argmax == NULL) {
        cuda_first_conv(shape, n, x, weight, bias, y, stream);
        return;
    }
    const int size = conv_out_size(shape), pooled = size / (argmax != NULL ? 2 : 1);
    CHECK(pooled >= 1, "a convolution makes images of %d x %d: too small for pooling", size, size);
    const int chunk = chunk_images(device, shape, n), channels = shape.out_channels;
    const size_t out_numel = (size_t)pooled * pooled * channels;
    const Workbench bench = workbench(device, shape, chunk, weight);
    for (int i = 0; i < n; i += chunk) {
        const int images = n - i < chunk ? n - i : chunk;
        float *to = y + i * out_numel, *product = argmax != NULL ? bench.z : to;
        multiply(device, shape, images, x + i * in_numel(shape), &bench, product);
        if (argmax != NULL)
            cuda_bias_relu_pool(shape, images, bench.z, bias, to, argmax + i * out_numel, stream);
        else
            cuda_add_bias(images * windows(shape), channels, true, bias, to, stream);
    }
}

/* Returns images' dz, in the products' type, from dy after relu; argmax is NULL without pooling. */
static const void *product_gradient(Device *device, ConvShape shape, int images, const float *dy,
                                    const uint8_t *argmax, const Workbench *bench)
{
    const cudaStream_t stream = cuda_state(device)->stream;
    if (argmax != NULL)
        cuda_unpool(shape, images, device->amp, dy, argmax, bench->z, stream);
    else if (device->amp != AMP_OFF)
        cuda_round(images * windows(shape) * shape.out_channels, device->amp, dy, bench->z, stream);
    else
        return dy;
    return bench->z;
}

/* Adds some images' gradients to dweight, and writes their dx unless it is NULL. */
static void multiply_back(Device *device, ConvShape shape, int images, const float *x,
                          const void *dz, const Workbench *bench, float *dweight, float *dx)
{
    const int filter = conv_filter_numel(shape), rows = images * (int)windows(shape);
    const Amp amp = device->amp;
    const cudaStream_t stream = cuda_state(device)->stream;
    cuda_im2col(shape, images, amp, x, bench->columns, stream);
    cuda_product(device, &(CudaProduct){ shape.out_channels, filter, rows, amp, dz, bench->columns,
                                         .a_transposed = true, .c = dweight, .add = true });
    if (dx == NULL)
        return;
    cuda_product(device, &(CudaProduct){ rows, filter, shape.out_channels, amp, dz, bench->weight,
                                         .c = bench->columns, .c_amp = amp });
    cuda_col2im(shape, images, amp, bench->columns, dx, stream);
}

void cuda_conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                    const uint8_t *argmax, const float *weight, float scale, float *dy,
                    float *dweight, float *dbias, float *dx)
{
    const cudaStream_t stream = cuda_state(device)->stream;
    if (is_first(shape) && argmax == NULL && dx == NULL) {
        const size_t sums = (size_t)cuda_first_conv_parts(shape, n) * shape.out_channels * 10;
        size_t used = 0;
        float *partial = cuda_scratch(device, &used, sums * sizeof(float));
        cuda_first_conv_grad(shape, n, x, y, scale, dy, partial, dweight, dbias, stream);
        return;
    }
    const int size = conv_out_size(shape) / (argmax != NULL ? 2 : 1);
    const int chunk = chunk_images(device, shape, n);
    const size_t out_numel = (size_t)size * size * shape.out_channels;
    const Workbench bench = workbench(device, shape, chunk, weight);
    cuda_sum_rows((size_t)n * size * size, shape.out_channels, y, scale, dy, bench.partial, dbias,
                  stream);
    for (int i = 0; i < n; i += chunk) {
        const int images = n - i < chunk ? n - i : chunk;
        const uint8_t *corners = argmax != NULL ? argmax + i * out_numel : NULL;
        const void *dz =
            product_gradient(device, shape, images, dy + i * out_numel, corners, &bench);
        multiply_back(device, shape, images, x + i * in_numel(shape), dz, &bench, dweight,
                      dx != NULL ? dx + i * in_numel(shape) : NULL);
    }
}
