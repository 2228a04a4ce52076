/*
 * The convolutions of cuDNN as loops, for images and filters with channels last. Like cuDNN, it
 * lists several algorithms for each product, the fastest first: one that adds in another order each
 * time, one that needs more memory than any GPU has, one that fails, one that rounds to TF32 if
 * that is allowed, and a good one. A workspace that is too small is refused, and its contents are
 * overwritten.
 */
#include <stdlib.h>

#include "include/cudnn.h"
#include "numbers.h"
#include "stand_in.h"

struct cudnnContext {
    cudaStream_t stream;
    int device;
};
struct cudnnTensorStruct {
    bool channels_last;
    cudnnDataType_t type;
    int n, c, h, w;
};
struct cudnnFilterStruct {
    struct cudnnTensorStruct shape; // n filters
};
struct cudnnConvolutionStruct {
    bool plain; // stride 1, no padding
    cudnnMathType_t math;
};
struct cudnnActivationStruct {
    cudnnActivationMode_t mode;
    cudnnNanPropagation_t nan;
};

typedef enum { FORWARD, BACKWARD_FILTER, BACKWARD_DATA } Product;
enum { UNSTEADY = 0, GOOD = 1, HUGE_ONE = 2, FAILING = 3 }; // algorithms

/* A queued product, which writes one of x, weight and y, and reads the others. */
typedef struct {
    Product product;
    struct cudnnTensorStruct x, weight, y;
    char *array[3]; // x, weight, y
    const char *bias; // NULL for neither bias nor relu
    bool keeps_nan; // true if the relu propagates NaN
    bool tf32;
    float alpha, beta;
    unsigned first; // index of the first summand, for UNSTEADY
    char *workspace;
    size_t workspace_bytes;
} Convolution;

static cudaDataType data_type(cudnnDataType_t type)
{
    return type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF
           : type == CUDNN_DATA_HALF   ? CUDA_R_16F
                                       : CUDA_R_32F;
}

static size_t numel(struct cudnnTensorStruct shape)
{
    return (size_t)shape.n * shape.c * shape.h * shape.w;
}

static float *unpack(const Convolution *c, struct cudnnTensorStruct shape, const char *data)
{
    float *numbers = malloc(sizeof *numbers * numel(shape));
    for (size_t i = 0; i < numel(shape); i++) {
        const float value = number_at(data, data_type(shape.type), (long)i);
        numbers[i] = c->tf32 ? to_tf32(value) : value;
    }
    return numbers;
}

/* Calls visit for every line of a window, `w.w * w.c` numbers long, of the images from..to: with
 * its position in x and in each filter, and that of the filter's first result in y. */
#define FOR_LINES(c, image, begin, end, ...) \
    for (int image_ = (begin); image_ < (end); image_++) { \
        const int image = (image_ + (int)(c)->first) % (c)->x.n; \
        for (int top = 0; top < (c)->y.h; top++) \
            for (int left = 0; left < (c)->y.w; left++) \
                for (int ky = 0; ky < (c)->weight.h; ky++) { \
                    const size_t at_x = \
                        (((size_t)image * (c)->x.h + top + ky) * (c)->x.w + left) * (c)->x.c; \
                    const size_t at_y = \
                        (((size_t)image * (c)->y.h + top) * (c)->y.w + left) * (c)->y.c; \
                    const size_t at_line = (size_t)ky * (c)->weight.w * (c)->weight.c; \
                    __VA_ARGS__ \
                } \
    }

/* Keeps the filters side by side, so that the innermost loop can be vectorized. */
static void forward(const Convolution *c, const float *x, const float *weight, float *y)
{
    const int line = c->weight.w * c->weight.c, filter = line * c->weight.h, filters = c->y.c;
    float *across = malloc(sizeof *across * filter * filters);
    for (int k = 0; k < filters; k++)
        for (int j = 0; j < filter; j++)
            across[(size_t)j * filters + k] = weight[(size_t)k * filter + j];
#pragma omp parallel for
    for (int i = 0; i < c->x.n; i++)
        FOR_LINES(c, image, i, i + 1,
                  for (int j = 0; j < line; j++) for (int k = 0; k < filters; k++) y[at_y + k] +=
                  x[at_x + j] * across[(at_line + j) * filters + k];)
    free(across);
}

static void backward_filter(const Convolution *c, const float *x, float *dweight, const float *dy)
{
    const int line = c->weight.w * c->weight.c, filter = line * c->weight.h;
#pragma omp parallel for
    for (int k = 0; k < c->y.c; k++)
        FOR_LINES(c, image, 0, c->x.n,
                  for (int j = 0; j < line; j++) dweight[(size_t)k * filter + at_line + j] +=
                  dy[at_y + k] * x[at_x + j];)
}

static void backward_data(const Convolution *c, float *dx, const float *weight, const float *dy)
{
    const int line = c->weight.w * c->weight.c, filter = line * c->weight.h;
#pragma omp parallel for
    for (int i = 0; i < c->x.n; i++)
        FOR_LINES(c, image, i, i + 1,
                  for (int k = 0; k < c->y.c; k++) for (int j = 0; j < line; j++) dx[at_x + j] +=
                  dy[at_y + k] * weight[(size_t)k * filter + at_line + j];)
}

/* Stores the sums, added to the old values, with bias and relu, in the array's type. */
static void store(const Convolution *c, int which, struct cudnnTensorStruct shape,
                  const float *sums)
{
    const cudaDataType type = data_type(shape.type);
    for (size_t i = 0; i < numel(shape); i++) {
        float value = c->alpha * sums[i];
        if (c->beta != 0)
            value += c->beta * number_at(c->array[which], type, (long)i);
        if (c->bias != NULL) {
            value += number_at(c->bias, type, (long)(i % shape.c));
            value = value > 0 || (c->keeps_nan && value != value) ? value : 0;
        }
        set_number(c->array[which], type, (long)i, value);
    }
}

static void run_convolution(void *arguments)
{
    const Convolution *c = arguments;
    const struct cudnnTensorStruct shape[3] = { c->x, c->weight, c->y };
    const int written = c->product == FORWARD ? 2 : c->product == BACKWARD_FILTER ? 1 : 0;
    stand_in_count.launches++;
    memset(c->workspace, 0xff, c->workspace_bytes);
    float *numbers[3];
    for (int i = 0; i < 3; i++)
        numbers[i] = i == written ? calloc(numel(shape[i]), sizeof(float))
                                  : unpack(c, shape[i], c->array[i]);
    if (c->product == FORWARD)
        forward(c, numbers[0], numbers[1], numbers[2]);
    else if (c->product == BACKWARD_FILTER)
        backward_filter(c, numbers[0], numbers[1], numbers[2]);
    else
        backward_data(c, numbers[0], numbers[1], numbers[2]);
    store(c, written, shape[written], numbers[written]);
    for (int i = 0; i < 3; i++)
        free(numbers[i]);
}

static size_t workspace_of(int algo, struct cudnnTensorStruct x)
{
    return algo == HUGE_ONE ? (size_t)1 << 40 : 256 * (size_t)x.n;
}

static bool fits(struct cudnnTensorStruct x, struct cudnnTensorStruct weight,
                 struct cudnnTensorStruct y, const struct cudnnConvolutionStruct *conv)
{
    return conv->plain && x.channels_last && weight.channels_last && y.channels_last &&
           x.type == weight.type && x.type == y.type && x.n == y.n && x.c == weight.c &&
           y.c == weight.n && y.h == x.h - weight.h + 1 && y.w == x.w - weight.w + 1;
}

static void check_range(const char *what, int device, const void *array,
                        struct cudnnTensorStruct shape)
{
    stand_in_check_range(what, device, array, numel(shape) * type_bytes(data_type(shape.type)));
}

static cudnnStatus_t queue_convolution(cudnnHandle_t handle, Convolution c,
                                       const struct cudnnConvolutionStruct *conv, int algo)
{
    LOCKED;
    if (!fits(c.x, c.weight, c.y, conv) || algo == FAILING)
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (c.workspace_bytes < workspace_of(algo, c.x))
        return CUDNN_STATUS_BAD_PARAM;
    const int device = stand_in_stream_device(handle->stream);
    check_range("cuDNN, x", device, c.array[0], c.x);
    check_range("cuDNN, weight", device, c.array[1], c.weight);
    check_range("cuDNN, y", device, c.array[2], c.y);
    if (c.bias != NULL)
        check_range("cuDNN, bias", device, c.bias,
                    (struct cudnnTensorStruct){ 1, c.y.type, 1, c.y.c, 1, 1 });
    c.workspace_bytes = workspace_of(algo, c.x);
    stand_in_check_range("cuDNN, workspace", device, c.workspace, c.workspace_bytes);
    c.tf32 = c.x.type == CUDNN_DATA_FLOAT && conv->math != CUDNN_FMA_MATH;
    c.first = algo == UNSTEADY ? stand_in_random((unsigned)c.x.n) : 0;
    stand_in_push(
        handle->stream,
        &(Work){ .name = "cuDNN", .run = run_convolution, .arguments = &c, .bytes = sizeof c });
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      const cudnnTensorDescriptor_t x_shape, const void *x,
                                      const cudnnFilterDescriptor_t weight_shape,
                                      const void *weight, const cudnnConvolutionDescriptor_t conv,
                                      cudnnConvolutionFwdAlgo_t algo, void *workspace,
                                      size_t workspace_bytes, const void *beta,
                                      const cudnnTensorDescriptor_t y_shape, void *y)
{
    return queue_convolution(handle,
                             (Convolution){ .product = FORWARD,
                                            .x = *x_shape,
                                            .weight = weight_shape->shape,
                                            .y = *y_shape,
                                            .array = { (char *)x, (char *)weight, y },
                                            .alpha = *(const float *)alpha,
                                            .beta = *(const float *)beta,
                                            .workspace = workspace,
                                            .workspace_bytes = workspace_bytes },
                             conv, (int)algo);
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha1, const cudnnTensorDescriptor_t x_shape, const void *x,
    const cudnnFilterDescriptor_t weight_shape, const void *weight,
    const cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algo, void *workspace,
    size_t workspace_bytes, const void *alpha2, const cudnnTensorDescriptor_t z_shape,
    const void *z, const cudnnTensorDescriptor_t bias_shape, const void *bias,
    const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y_shape, void *y)
{
    if (bias_shape->c != y_shape->c || bias_shape->type != y_shape->type ||
        numel(*bias_shape) != (size_t)y_shape->c || numel(*z_shape) != numel(*y_shape) ||
        z == NULL || *(const float *)alpha2 != 0 || activation->mode != CUDNN_ACTIVATION_RELU)
        return CUDNN_STATUS_NOT_SUPPORTED;
    return queue_convolution(handle,
                             (Convolution){ .product = FORWARD,
                                            .x = *x_shape,
                                            .weight = weight_shape->shape,
                                            .y = *y_shape,
                                            .array = { (char *)x, (char *)weight, y },
                                            .bias = bias,
                                            .keeps_nan = activation->nan == CUDNN_PROPAGATE_NAN,
                                            .alpha = *(const float *)alpha1,
                                            .workspace = workspace,
                                            .workspace_bytes = workspace_bytes },
                             conv, (int)algo);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_shape, const void *x,
    const cudnnTensorDescriptor_t dy_shape, const void *dy, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdFilterAlgo_t algo, void *workspace, size_t workspace_bytes, const void *beta,
    const cudnnFilterDescriptor_t dweight_shape, void *dweight)
{
    return queue_convolution(handle,
                             (Convolution){ .product = BACKWARD_FILTER,
                                            .x = *x_shape,
                                            .weight = dweight_shape->shape,
                                            .y = *dy_shape,
                                            .array = { (char *)x, dweight, (char *)dy },
                                            .alpha = *(const float *)alpha,
                                            .beta = *(const float *)beta,
                                            .workspace = workspace,
                                            .workspace_bytes = workspace_bytes },
                             conv, (int)algo);
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t weight_shape,
    const void *weight, const cudnnTensorDescriptor_t dy_shape, const void *dy,
    const cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algo, void *workspace,
    size_t workspace_bytes, const void *beta, const cudnnTensorDescriptor_t dx_shape, void *dx)
{
    return queue_convolution(handle,
                             (Convolution){ .product = BACKWARD_DATA,
                                            .x = *dx_shape,
                                            .weight = weight_shape->shape,
                                            .y = *dy_shape,
                                            .array = { dx, (char *)weight, (char *)dy },
                                            .alpha = *(const float *)alpha,
                                            .beta = *(const float *)beta,
                                            .workspace = workspace,
                                            .workspace_bytes = workspace_bytes },
                             conv, (int)algo);
}

/* Defines the three functions that list algorithms, whose types differ. */
#define DEFINE_LIST(function, x_type, x_name, y_type, y_name, z_type, z_name, x, weight, y, perf) \
    cudnnStatus_t function(cudnnHandle_t handle, const x_type x_name, const y_type y_name, \
                           const cudnnConvolutionDescriptor_t conv, const z_type z_name, \
                           const int most, int *found, perf *list) \
    { \
        (void)handle; \
        *found = 0; \
        if (!fits(*(x), (weight)->shape, *(y), conv)) \
            return CUDNN_STATUS_NOT_SUPPORTED; \
        const int algos[] = { UNSTEADY, HUGE_ONE, FAILING, GOOD, GOOD }; \
        for (int i = 0; i < 5 && i < most; i++, ++*found) { \
            list[i].algo = algos[i]; \
            list[i].status = \
                algos[i] == FAILING ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS; \
            list[i].time = -1; \
            list[i].memory = workspace_of(algos[i], *(x)); \
            list[i].determinism = \
                algos[i] == UNSTEADY ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC; \
            list[i].mathType = i == 3 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH; \
        } \
        return CUDNN_STATUS_SUCCESS; \
    }
DEFINE_LIST(cudnnGetConvolutionForwardAlgorithm_v7, cudnnTensorDescriptor_t, x,
            cudnnFilterDescriptor_t, weight, cudnnTensorDescriptor_t, y, x, weight, y,
            cudnnConvolutionFwdAlgoPerf_t)
DEFINE_LIST(cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnTensorDescriptor_t, x,
            cudnnTensorDescriptor_t, dy, cudnnFilterDescriptor_t, dweight, x, dweight, dy,
            cudnnConvolutionBwdFilterAlgoPerf_t)
DEFINE_LIST(cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnFilterDescriptor_t, weight,
            cudnnTensorDescriptor_t, dy, cudnnTensorDescriptor_t, dx, dx, weight, dy,
            cudnnConvolutionBwdDataAlgoPerf_t)

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess || stand_in_capturing())
        return CUDNN_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    (*handle)->device = stand_in_device();
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    LOCKED;
    stand_in_finish_device(handle->device);
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS           ? "CUDNN_STATUS_SUCCESS"
           : status == CUDNN_STATUS_NOT_INITIALIZED ? "CUDNN_STATUS_NOT_INITIALIZED"
           : status == CUDNN_STATUS_BAD_PARAM       ? "CUDNN_STATUS_BAD_PARAM"
                                                    : "CUDNN_STATUS_NOT_SUPPORTED";
}

/* ---- descriptors ---- */

#define DEFINE_DESCRIPTOR(name, type) \
    cudnnStatus_t cudnnCreate##name(type *descriptor) \
    { \
        *descriptor = calloc(1, sizeof **descriptor); \
        return CUDNN_STATUS_SUCCESS; \
    } \
    cudnnStatus_t cudnnDestroy##name(type descriptor) \
    { \
        free(descriptor); \
        return CUDNN_STATUS_SUCCESS; \
    }
DEFINE_DESCRIPTOR(TensorDescriptor, cudnnTensorDescriptor_t)
DEFINE_DESCRIPTOR(FilterDescriptor, cudnnFilterDescriptor_t)
DEFINE_DESCRIPTOR(ConvolutionDescriptor, cudnnConvolutionDescriptor_t)
DEFINE_DESCRIPTOR(ActivationDescriptor, cudnnActivationDescriptor_t)

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w)
{
    if (n < 1 || c < 1 || h < 1 || w < 1)
        return CUDNN_STATUS_BAD_PARAM;
    *tensor = (struct cudnnTensorStruct){ format == CUDNN_TENSOR_NHWC, type, n, c, h, w };
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w)
{
    return cudnnSetTensor4dDescriptor(&filter->shape, format, type, k, c, h, w);
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute)
{
    conv->plain = pad_h == 0 && pad_w == 0 && stride_h == 1 && stride_w == 1 && dilation_h == 1 &&
                  dilation_w == 1 && mode == CUDNN_CROSS_CORRELATION && compute == CUDNN_DATA_FLOAT;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math)
{
    conv->math = math;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double coefficient)
{
    (void)coefficient;
    *activation = (struct cudnnActivationStruct){ mode, nan };
    return CUDNN_STATUS_SUCCESS;
}
