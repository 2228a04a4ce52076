/* Convolution as a product of matrices: im2col writes the window under the filter at each place as
 * a row of a matrix; times the filters, that is the convolution. Backward, col2im sums for each
 * pixel over the windows that contain it: a gather rather than a scatter with atomics, so the order
 * of the additions is fixed.
 *
 * Images keep their channels last, so a line of the window is contiguous: neighbouring threads read
 * and write neighbouring numbers, four at a time where the channels allow. */
#include "common/nn/cuda/cuda_launch.h"

enum { BLOCK = 256 };

template <typename T, int COUNT, typename Shape>
static __global__ void im2col_kernel(Shape shape, int count, const float *x, T *columns)
{
    const int i = (blockIdx.x * BLOCK + threadIdx.x) * COUNT;
    if (i >= count)
        return;
    const int line = shape.kernel * shape.in_channels; // length of a line of the window
    const int size = out_size(shape);
    const int ky = i / line % shape.kernel, window = i / line / shape.kernel;
    const int left = window % size, top = window / size % size, image = window / size / size;
    const int row = image * shape.in_size + top + ky;
    const float *from = x + (row * shape.in_size + left) * shape.in_channels + i % line;

    const Pack<float, COUNT> numbers = load_pack<float, COUNT>(from);
    Pack<T, COUNT> rounded;
    for (int j = 0; j < COUNT; j++)
        rounded.value[j] = T(numbers.value[j]);
    store_pack(columns + i, rounded);
}

template <typename T>
static void im2col(ConvShape shape, int images, const float *x, void *to, cudaStream_t stream)
{
    T *columns = (T *)to;
    const int size = out_size(shape);
    const int count = images * size * size * shape.kernel * shape.kernel * shape.in_channels;
    if (SecondConv::is(shape))
        LAUNCH((im2col_kernel<T, 4, SecondConv>), cuda_blocks(count / 4, BLOCK), BLOCK, stream,
               SecondConv(), count, x, columns);
    else if (shape.in_channels % 4 == 0)
        LAUNCH((im2col_kernel<T, 4, ConvShape>), cuda_blocks(count / 4, BLOCK), BLOCK, stream,
               shape, count, x, columns);
    else
        LAUNCH((im2col_kernel<T, 1, ConvShape>), cuda_blocks(count, BLOCK), BLOCK, stream, shape,
               count, x, columns);
}

extern "C" void cuda_im2col(ConvShape shape, int images, Amp amp, const float *x, void *columns,
                            cudaStream_t stream)
{
    FOR_TYPE(amp, im2col, shape, images, x, columns, stream);
}

template <typename T, int COUNT, typename Shape>
static __global__ void col2im_kernel(Shape shape, int count, const T *columns, float *x)
{
    const int i = (blockIdx.x * BLOCK + threadIdx.x) * COUNT;
    if (i >= count)
        return;
    const int size = out_size(shape), kernel = shape.kernel;
    const int channel = i % shape.in_channels, pixel = i / shape.in_channels;
    const int column = pixel % shape.in_size, row = pixel / shape.in_size % shape.in_size;
    const int image = pixel / shape.in_size / shape.in_size;

    Pack<float, COUNT> sums = {};
    for (int ky = 0; ky < kernel; ky++)
        for (int kx = 0; kx < kernel; kx++) {
            const int top = row - ky, left = column - kx; // a window with this pixel
            if (top < 0 || top >= size || left < 0 || left >= size)
                continue;
            const int window = (image * size + top) * size + left;
            const T *from =
                columns + ((window * kernel + ky) * kernel + kx) * shape.in_channels + channel;
            const Pack<T, COUNT> numbers = load_pack<T, COUNT>(from);
            for (int j = 0; j < COUNT; j++)
                sums.value[j] += float(numbers.value[j]);
        }
    store_pack(x + i, sums);
}

template <typename T>
static void col2im(ConvShape shape, int images, const void *from, float *x, cudaStream_t stream)
{
    const T *columns = (const T *)from;
    const int count = images * shape.in_size * shape.in_size * shape.in_channels;
    if (SecondConv::is(shape))
        LAUNCH((col2im_kernel<T, 4, SecondConv>), cuda_blocks(count / 4, BLOCK), BLOCK, stream,
               SecondConv(), count, columns, x);
    else if (shape.in_channels % 4 == 0)
        LAUNCH((col2im_kernel<T, 4, ConvShape>), cuda_blocks(count / 4, BLOCK), BLOCK, stream,
               shape, count, columns, x);
    else
        LAUNCH((col2im_kernel<T, 1, ConvShape>), cuda_blocks(count, BLOCK), BLOCK, stream, shape,
               count, columns, x);
}

extern "C" void cuda_col2im(ConvShape shape, int images, Amp amp, const void *columns, float *x,
                            cudaStream_t stream)
{
    FOR_TYPE(amp, col2im, shape, images, columns, x, stream);
}
