/*
 * --conv cudnn: convolutions by cuDNN, without a matrix of windows. Images and filters lie in the
 * order that is fastest for it, channels last (NHWC), so nothing is transposed.
 *
 * As with im2col a chunk of images is computed at a time, so that a result is still in the L2 cache
 * when the next kernel reads it, and memory does not depend on the batch. cuDNN has several
 * algorithms for each of the three products. Its heuristic orders them by expected time; we take
 * the first that always gives the same bits and fits into the workspace, once for each number of
 * images. The workspace is allocated when the model is made, for the largest chunk, so nothing
 * allocates while a step is captured.
 *
 * Where pooling follows, bias and relu cost nothing in the pass that pools (a quarter of the
 * units); else cuDNN adds them in the product's kernel. The first convolution, of one channel,
 * keeps its own kernels (cuda_first_conv.cu). With --amp cuDNN reads and writes 16 bits, and
 * so do all layers (short.h): an array of float that passes from one to the next then holds numbers
 * of 16 bits. Sums over the chunks, and with the gradients of earlier passes, are in float32.
 *
 * These functions are cuDNN's older ones, which version 9 still has: its graphs of operations would
 * need a tree of descriptors for each product.
 */
#include <cudnn.h>
#include <stdlib.h>

#include "common/base/library.h"
#include "common/base/memory.h"
#include "common/nn/cuda/cuda_state.h"
#include "extras/cudnn/short.h"

#define LIBRARY "libcudnn.so." LIBRARY_TEXT(CUDNN_MAJOR)
#define NEEDED_BY "--conv cudnn"
#define DNN(FUNCTION) \
    FUNCTION(create, cudnnCreate) \
    FUNCTION(destroy, cudnnDestroy) \
    FUNCTION(set_stream, cudnnSetStream) \
    FUNCTION(error_string, cudnnGetErrorString) \
    FUNCTION(create_tensor, cudnnCreateTensorDescriptor) \
    FUNCTION(set_tensor, cudnnSetTensor4dDescriptor) \
    FUNCTION(destroy_tensor, cudnnDestroyTensorDescriptor) \
    FUNCTION(create_filter, cudnnCreateFilterDescriptor) \
    FUNCTION(set_filter, cudnnSetFilter4dDescriptor) \
    FUNCTION(destroy_filter, cudnnDestroyFilterDescriptor) \
    FUNCTION(create_conv, cudnnCreateConvolutionDescriptor) \
    FUNCTION(set_conv, cudnnSetConvolution2dDescriptor) \
    FUNCTION(set_math, cudnnSetConvolutionMathType) \
    FUNCTION(destroy_conv, cudnnDestroyConvolutionDescriptor) \
    FUNCTION(create_activation, cudnnCreateActivationDescriptor) \
    FUNCTION(set_activation, cudnnSetActivationDescriptor) \
    FUNCTION(destroy_activation, cudnnDestroyActivationDescriptor) \
    FUNCTION(find_forward, cudnnGetConvolutionForwardAlgorithm_v7) \
    FUNCTION(find_dweight, cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
    FUNCTION(find_dx, cudnnGetConvolutionBackwardDataAlgorithm_v7) \
    FUNCTION(forward, cudnnConvolutionForward) \
    FUNCTION(forward_bias_relu, cudnnConvolutionBiasActivationForward) \
    FUNCTION(backward_dweight, cudnnConvolutionBackwardFilter) \
    FUNCTION(backward_dx, cudnnConvolutionBackwardData)
static struct Dnn {
    DNN(LIBRARY_POINTER)
} dnn;

#define CUDNN_CHECK(call) \
    do { \
        const cudnnStatus_t status = (call); \
        CHECK(status == CUDNN_STATUS_SUCCESS, "%s:%d: %s: %s", __FILE__, __LINE__, #call, \
              dnn.error_string(status)); \
    } while (0)

enum { WORKSPACE_LIMIT = 256 << 20 }; // algorithms that need more are not taken
enum { MAX_ALGORITHMS = 10, MAX_PLANS = 16 };
enum { FORWARD, DWEIGHT, DX, PRODUCTS };

/* The three products for one number of images. */
typedef struct {
    ConvShape shape;
    int images; // 0 if this slot is free
    cudnnTensorDescriptor_t x, y, bias;
    cudnnFilterDescriptor_t weight;
    cudnnConvolutionDescriptor_t conv[PRODUCTS]; // their math types may differ
    cudnnConvolutionFwdAlgoPerf_t forward; // the chosen algorithms
    cudnnConvolutionBwdFilterAlgoPerf_t dweight;
    cudnnConvolutionBwdDataAlgoPerf_t dx;
} Plan;

typedef struct Cudnn {
    DeviceOps ops; // the device's table with the entries below
    ShortLayers layers; // the layers used with --amp
    const DeviceOps *inner; // the device's own table
    cudnnHandle_t handle;
    cudnnActivationDescriptor_t relu;
    void *workspace;
    size_t workspace_bytes;
    Plan plan[MAX_PLANS];
    int num_plans; // plans made so far; a new plan replaces the oldest
} Cudnn;

static Cudnn *cudnn_of(const Device *device)
{
    return cuda_state(device)->cudnn;
}

/* ---- plans ---- */

static size_t x_numel(ConvShape shape)
{
    return (size_t)shape.in_size * shape.in_size * shape.in_channels;
}

static size_t z_numel(ConvShape shape) // the size of the result, before pooling
{
    return (size_t)conv_out_size(shape) * conv_out_size(shape) * shape.out_channels;
}

static size_t weight_numel(ConvShape shape)
{
    return (size_t)shape.out_channels * conv_filter_numel(shape);
}

static cudnnDataType_t type_of(Amp amp)
{
    return amp == AMP_BF16   ? CUDNN_DATA_BFLOAT16
           : amp == AMP_FP16 ? CUDNN_DATA_HALF
                             : CUDNN_DATA_FLOAT;
}

/* Returns the math type that may be used, because cuDNN would round float32 to TF32 by default. */
static cudnnMathType_t math_of(const Device *device)
{
    return device->amp != AMP_OFF ? CUDNN_TENSOR_OP_MATH
           : device->tf32         ? CUDNN_DEFAULT_MATH
                                  : CUDNN_FMA_MATH;
}

static void describe(const Device *device, Plan *plan, ConvShape s, int images)
{
    const cudnnDataType_t type = type_of(device->amp);
    const int size = conv_out_size(s);
    *plan = (Plan){ .shape = s, .images = images };
    CUDNN_CHECK(dnn.create_tensor(&plan->x));
    CUDNN_CHECK(dnn.create_tensor(&plan->y));
    CUDNN_CHECK(dnn.create_tensor(&plan->bias));
    CUDNN_CHECK(dnn.create_filter(&plan->weight));
    CUDNN_CHECK(dnn.set_tensor(plan->x, CUDNN_TENSOR_NHWC, type, images, s.in_channels, s.in_size,
                               s.in_size));
    CUDNN_CHECK(
        dnn.set_tensor(plan->y, CUDNN_TENSOR_NHWC, type, images, s.out_channels, size, size));
    CUDNN_CHECK(dnn.set_tensor(plan->bias, CUDNN_TENSOR_NHWC, type, 1, s.out_channels, 1, 1));
    CUDNN_CHECK(dnn.set_filter(plan->weight, type, CUDNN_TENSOR_NHWC, s.out_channels, s.in_channels,
                               s.kernel, s.kernel));
    for (int i = 0; i < PRODUCTS; i++) {
        CUDNN_CHECK(dnn.create_conv(&plan->conv[i]));
        CUDNN_CHECK(dnn.set_conv(plan->conv[i], 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                 CUDNN_DATA_FLOAT));
        CUDNN_CHECK(dnn.set_math(plan->conv[i], math_of(device)));
    }
}

static void plan_free(const Plan *plan)
{
    CUDNN_CHECK(dnn.destroy_tensor(plan->x));
    CUDNN_CHECK(dnn.destroy_tensor(plan->y));
    CUDNN_CHECK(dnn.destroy_tensor(plan->bias));
    CUDNN_CHECK(dnn.destroy_filter(plan->weight));
    for (int i = 0; i < PRODUCTS; i++)
        CUDNN_CHECK(dnn.destroy_conv(plan->conv[i]));
}

/* Sets `chosen` to the first suitable algorithm of the list that `find` makes. The three products
 * have lists of three types. */
#define CHOOSE(device, chosen, conv, limit, find, ...) \
    do { \
        __typeof__(chosen) list[MAX_ALGORITHMS]; \
        int found = 0, i = 0; \
        CUDNN_CHECK(find(cudnn_of(device)->handle, __VA_ARGS__, MAX_ALGORITHMS, &found, list)); \
        while (i < found && !will_do(device, list[i].status, list[i].determinism, \
                                     list[i].mathType, list[i].memory, limit)) \
            i++; \
        CHECK(i < found, "--conv cudnn: " #find " lists no algorithm that always gives the same " \
                         "bits: leave --conv out"); \
        chosen = list[i]; \
        CUDNN_CHECK(dnn.set_math(conv, chosen.mathType)); \
    } while (0)

static bool will_do(const Device *device, cudnnStatus_t status, cudnnDeterminism_t determinism,
                    cudnnMathType_t math, size_t bytes, size_t limit)
{
    const bool rounds = device->amp == AMP_OFF && !device->tf32 && math != CUDNN_FMA_MATH;
    return status == CUDNN_STATUS_SUCCESS && determinism == CUDNN_DETERMINISTIC && bytes <= limit &&
           !rounds;
}

/* Returns the plan for this number of images. A new one is limited to the present workspace; with
 * `reserve`, the workspace grows to what the plan needs. */
static const Plan *plan_for(Device *device, ConvShape shape, int images, bool reserve)
{
    Cudnn *cudnn = cudnn_of(device);
    for (int i = 0; i < MAX_PLANS; i++)
        if (memcmp(&cudnn->plan[i].shape, &shape, sizeof shape) == 0 &&
            cudnn->plan[i].images == images)
            return &cudnn->plan[i];

    Plan *plan = &cudnn->plan[cudnn->num_plans++ % MAX_PLANS];
    if (plan->images > 0)
        plan_free(plan);
    describe(device, plan, shape, images);
    const size_t limit = reserve ? WORKSPACE_LIMIT : cudnn->workspace_bytes;
    CHOOSE(device, plan->forward, plan->conv[FORWARD], limit, dnn.find_forward, plan->x,
           plan->weight, plan->conv[FORWARD], plan->y);
    CHOOSE(device, plan->dweight, plan->conv[DWEIGHT], limit, dnn.find_dweight, plan->x, plan->y,
           plan->conv[DWEIGHT], plan->weight);
    CHOOSE(device, plan->dx, plan->conv[DX], limit, dnn.find_dx, plan->weight, plan->y,
           plan->conv[DX], plan->x);
    return plan;
}

static void workspace_reserve(Device *device, size_t bytes)
{
    Cudnn *cudnn = cudnn_of(device);
    if (bytes <= cudnn->workspace_bytes)
        return;
    CUDA_CHECK(cudaFree(cudnn->workspace)); // waits for work that still uses it
    cudnn->workspace = device_malloc(device, bytes);
    cudnn->workspace_bytes = bytes;
}

/* ---- the table ---- */

static bool is_cudnns(ConvShape shape)
{
    return shape.in_channels > 1; // else it is a first convolution
}

static int max_images(const Device *device, ConvShape shape)
{
    const size_t x = x_numel(shape), z = z_numel(shape);
    const size_t bytes = (x > z ? x : z) * amp_bytes(device->amp);
    const size_t images = cuda_state(device)->chunk_bytes / bytes;
    return images > 0 ? (int)images : 1;
}

/* Returns how many of n images make a chunk; chunks have about the same size. */
static int chunk_images(const Device *device, ConvShape shape, int n)
{
    const int most = max_images(device, shape), chunks = (n + most - 1) / most;
    return (n + chunks - 1) / chunks;
}

/* The scratch memory for a chunk. */
typedef struct {
    const void *weight; // in the products' type
    float *partial; // partial sums
    void *dweight; // in the products' type
    void *z; // the result, or its gradient, in the products' type
} Workbench;

static Workbench workbench(Device *device, ConvShape shape, int images, const float *weight)
{
    const size_t size = amp_bytes(device->amp);
    size_t used = 0;
    Workbench bench;
    bench.weight = cuda_operand(device, device->amp, &used, weight_numel(shape), weight);
    bench.partial =
        cuda_scratch(device, &used, CUDA_SUM_PARTS * sizeof(float) * shape.out_channels);
    bench.dweight = cuda_scratch(device, &used, weight_numel(shape) * size);
    bench.z = cuda_scratch(device, &used, images * z_numel(shape) * size);
    return bench;
}

static void conv_reserve(Device *device, ConvShape shape)
{
    cudnn_of(device)->inner->conv_reserve(device, shape);
    if (!is_cudnns(shape))
        return;
    const size_t images = (size_t)max_images(device, shape), size = amp_bytes(device->amp);
    cuda_scratch_reserve(
        device, 2 * cuda_scratch_piece(weight_numel(shape) * size) +
                    cuda_scratch_piece(CUDA_SUM_PARTS * sizeof(float) * shape.out_channels) +
                    cuda_scratch_piece(images * z_numel(shape) * size));
    const Plan *plan = plan_for(device, shape, (int)images, true);
    workspace_reserve(device, plan->forward.memory);
    workspace_reserve(device, plan->dweight.memory);
    workspace_reserve(device, plan->dx.memory);
}

/* Computes z = conv(x), or with a bias z = relu(conv(x) + bias). */
static void multiply(Device *device, const Plan *plan, const void *x, const void *weight,
                     const float *bias, void *z)
{
    const Cudnn *cudnn = cudnn_of(device);
    const float one = 1, none = 0;
    if (bias == NULL)
        CUDNN_CHECK(dnn.forward(cudnn->handle, &one, plan->x, x, plan->weight, weight,
                                plan->conv[FORWARD], plan->forward.algo, cudnn->workspace,
                                cudnn->workspace_bytes, &none, plan->y, z));
    else // even an operand multiplied by `none` must exist
        CUDNN_CHECK(dnn.forward_bias_relu(cudnn->handle, &one, plan->x, x, plan->weight, weight,
                                          plan->conv[FORWARD], plan->forward.algo, cudnn->workspace,
                                          cudnn->workspace_bytes, &none, plan->y, z, plan->bias,
                                          bias, cudnn->relu, plan->y, z));
}

/* Computes a chunk's y and argmax from z. */
static void bias_relu_pool(Device *device, ConvShape shape, int images, const void *z,
                           const float *bias, void *y, uint8_t *argmax)
{
    const cudaStream_t stream = cuda_state(device)->stream;
    if (device->amp == AMP_OFF)
        cuda_bias_relu_pool(shape, images, z, bias, y, argmax, stream);
    else
        cuda_short_pool(shape, images, device->amp, z, bias, y, argmax, stream);
}

/* Dies, in 16 bits, unless it is one of the two kinds of convolutions that models have. */
static void check_kind(const Device *device, ConvShape shape, bool pooled)
{
    const bool first = !is_cudnns(shape);
    CHECK(device->amp == AMP_OFF || (first && !pooled && shape.kernel == 3) ||
              (!first && pooled && shape.out_channels % 4 == 0),
          "--conv cudnn with --amp knows a first convolution of 3 x 3, and others with pooling");
}

static void conv_relu(Device *device, ConvShape shape, int n, const float *x, const float *weight,
                      const float *bias, float *y, uint8_t *argmax)
{
    const bool pooled = argmax != NULL;
    check_kind(device, shape, pooled);
    if (!is_cudnns(shape)) {
        if (device->amp == AMP_OFF)
            cudnn_of(device)->inner->conv_relu(device, shape, n, x, weight, bias, y, argmax);
        else
            cuda_short_first_conv(shape, n, device->amp, x, weight, bias, y,
                                  cuda_state(device)->stream);
        return;
    }
    const int side = conv_out_size(shape) / 2, chunk = chunk_images(device, shape, n);
    CHECK(!pooled || side >= 1, "a convolution makes images of %d x %d: too small for pooling",
          conv_out_size(shape), conv_out_size(shape));
    const size_t out_numel = pooled ? (size_t)side * side * shape.out_channels : z_numel(shape);
    const size_t size = amp_bytes(device->amp);
    const Workbench bench = workbench(device, shape, chunk, weight);
    for (int i = 0; i < n; i += chunk) {
        const int images = n - i < chunk ? n - i : chunk;
        const Plan *plan = plan_for(device, shape, images, false);
        const char *in = (const char *)x + i * x_numel(shape) * size;
        char *to = (char *)y + i * out_numel * size;
        multiply(device, plan, in, bench.weight, pooled ? NULL : bias, pooled ? bench.z : to);
        if (pooled)
            bias_relu_pool(device, shape, images, bench.z, bias, to, argmax + i * out_numel);
    }
}

/* Computes a chunk's dz from dy after relu; argmax is NULL without pooling, in float32 only. */
static const void *product_gradient(Device *device, ConvShape shape, int images, const void *dy,
                                    const uint8_t *argmax, const Workbench *bench)
{
    const cudaStream_t stream = cuda_state(device)->stream;
    if (argmax == NULL)
        return dy;
    if (device->amp == AMP_OFF)
        cuda_unpool(shape, images, AMP_OFF, dy, argmax, bench->z, stream);
    else
        cuda_short_unpool(shape, images, device->amp, dy, argmax, bench->z, stream);
    return bench->z;
}

/* Adds a chunk's gradient to dweight. */
static void multiply_dweight(Device *device, const Plan *plan, const void *x, const void *dz,
                             const Workbench *bench, float *dweight)
{
    const Cudnn *cudnn = cudnn_of(device);
    const bool is_short = device->amp != AMP_OFF;
    const float one = 1, add = is_short ? 0 : 1;
    CUDNN_CHECK(dnn.backward_dweight(cudnn->handle, &one, plan->x, x, plan->y, dz,
                                     plan->conv[DWEIGHT], plan->dweight.algo, cudnn->workspace,
                                     cudnn->workspace_bytes, &add, plan->weight,
                                     is_short ? bench->dweight : dweight));
    if (is_short)
        cuda_short_add(weight_numel(plan->shape), device->amp, bench->dweight, dweight,
                       cuda_state(device)->stream);
}

/* Writes a chunk's dx. */
static void multiply_dx(const Cudnn *cudnn, const Plan *plan, const void *dz, const void *weight,
                        void *dx)
{
    const float one = 1, none = 0;
    CUDNN_CHECK(dnn.backward_dx(cudnn->handle, &one, plan->weight, weight, plan->y, dz,
                                plan->conv[DX], plan->dx.algo, cudnn->workspace,
                                cudnn->workspace_bytes, &none, plan->x, dx));
}

static void first_conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                            float scale, const float *dy, float *dweight, float *dbias)
{
    // Partial sums of a filter's nine weights and its bias, and partial sums of those.
    const size_t parts = (size_t)cuda_first_conv_parts(shape, n) + CUDA_SUM_PARTS;
    size_t used = 0;
    float *partial = cuda_scratch(device, &used, parts * shape.out_channels * 10 * sizeof(float));
    cuda_short_first_conv_grad(shape, n, device->amp, x, y, scale, dy, partial, dweight, dbias,
                               cuda_state(device)->stream);
}

/* Computes dbias, and dy after relu and dropout. */
static void relu_grad_and_sum(Device *device, size_t rows, int channels, const float *y,
                              float scale, float *dy, const Workbench *bench, float *dbias)
{
    const cudaStream_t stream = cuda_state(device)->stream;
    if (device->amp == AMP_OFF)
        cuda_sum_rows(rows, channels, y, scale, dy, bench->partial, dbias, stream);
    else
        cuda_short_sum_rows(rows, channels, device->amp, y, scale, dy, bench->partial, dbias,
                            stream);
}

static void conv_grad(Device *device, ConvShape shape, int n, const float *x, const float *y,
                      const uint8_t *argmax, const float *weight, float scale, float *dy,
                      float *dweight, float *dbias, float *dx)
{
    const Cudnn *cudnn = cudnn_of(device);
    check_kind(device, shape, argmax != NULL);
    if (!is_cudnns(shape)) {
        if (device->amp == AMP_OFF)
            cudnn->inner->conv_grad(device, shape, n, x, y, argmax, weight, scale, dy, dweight,
                                    dbias, dx);
        else
            first_conv_grad(device, shape, n, x, y, scale, dy, dweight, dbias);
        return;
    }
    const int side = conv_out_size(shape) / (argmax != NULL ? 2 : 1);
    const int chunk = chunk_images(device, shape, n);
    const size_t out_numel = (size_t)side * side * shape.out_channels;
    const size_t size = amp_bytes(device->amp);
    const Workbench bench = workbench(device, shape, chunk, weight);
    relu_grad_and_sum(device, (size_t)n * side * side, shape.out_channels, y, scale, dy, &bench,
                      dbias);
    for (int i = 0; i < n; i += chunk) {
        const int images = n - i < chunk ? n - i : chunk;
        const Plan *plan = plan_for(device, shape, images, false);
        const size_t at = i * x_numel(shape) * size;
        const void *dz =
            product_gradient(device, shape, images, (const char *)dy + i * out_numel * size,
                             argmax != NULL ? argmax + i * out_numel : NULL, &bench);
        multiply_dweight(device, plan, (const char *)x + at, dz, &bench, dweight);
        if (dx != NULL)
            multiply_dx(cudnn, plan, dz, bench.weight, (char *)dx + at);
    }
}

ShortLayers *short_layers(const Device *device)
{
    return &cudnn_of(device)->layers;
}

static void cudnn_free(Device *device)
{
    Cudnn *cudnn = cudnn_of(device);
    cudnn->inner->synchronize(device);
    for (int i = 0; i < MAX_PLANS; i++)
        if (cudnn->plan[i].images > 0)
            plan_free(&cudnn->plan[i]);
    CUDNN_CHECK(dnn.destroy_activation(cudnn->relu));
    CUDNN_CHECK(dnn.destroy(cudnn->handle));
    CUDA_CHECK(cudaFree(cudnn->workspace));
    cudnn->inner->free(device);
    free(cudnn);
}

void conv_cudnn_init(Device *device)
{
    Cudnn *cudnn = cuda_state(device)->cudnn = mem_calloc(1, sizeof *cudnn);
    dnn = (struct Dnn){ DNN(LIBRARY_FIND) };
    CUDNN_CHECK(dnn.create(&cudnn->handle));
    CUDNN_CHECK(dnn.set_stream(cudnn->handle, cuda_state(device)->stream));
    CUDNN_CHECK(dnn.create_activation(&cudnn->relu));
    CUDNN_CHECK(dnn.set_activation(cudnn->relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
    cudnn->inner = device->ops;
    cudnn->ops = *device->ops;
    cudnn->ops.conv_reserve = conv_reserve;
    cudnn->ops.conv_relu = conv_relu;
    cudnn->ops.conv_grad = conv_grad;
    cudnn->ops.free = cudnn_free;
    if (device->amp != AMP_OFF)
        short_layers_init(&cudnn->layers, cudnn->inner, &cudnn->ops);
    device->ops = &cudnn->ops;
}
