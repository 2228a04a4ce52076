/*
 * gpu_kernels - how long the GPU's kernels take at the sizes of the CNN's step, beside what they
 * have to read, write and compute, and what this GPU can do at best: gpu.py makes a roofline of it.
 *
 * Each call is recorded 20 times as a graph. Of two launches the second is timed with CUDA events,
 * so neither the launch counts nor the time until the host notices the end. The result is the least
 * of five rounds.
 * What is in the L2 cache from one repetition to the next never sees the memory; with a batch of
 * 4,096 only the parts of conv2 are that small, which is what its chunks are for (cuda_conv.c).
 *
 *     build/bench/gpu_kernels BATCH PRECISION [repeats rounds [im2col|cudnn]]
 *
 * prints name, precision, seconds, bytes and operations, with tabs between them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/rng.h"
#include "common/base/words.h"
#include "common/nn/cuda/cuda_state.h"

enum { CLASSES = 10, HIDDEN = 128, PARAMETERS = 1199882 };
enum { LARGEST_CHUNK = 64 }; // MiB, the largest that is tried
enum { LARGE_SIDE = 8192, SMALL_SIDE = 256 }; // sides of the matrices for the peak

static const ConvShape conv1 = { 1, 28, 32, 3 }, conv2 = { 32, 26, 64, 3 };
// Elements per image: its pixels, and the layers' outputs.
static const double pixels = 784, out1 = 26 * 26 * 32, out2 = 24 * 24 * 64, pooled = 12 * 12 * 64;
static const double filter2 = 288, places2 = 24 * 24; // conv2's matrix of windows

typedef struct {
    Device device;
    const char *precision;
    int n, side;
    int repeats, rounds; // calls in a graph; timed launches
    int turn; // number of the call of the kernel that is being measured
    float *a, *b, *c, *params, *grads, *momentum; // device memory, as are the next two lines
    uint8_t *bytes, *argmax;
    int32_t *labels, *rows; // labels are 0, and row i is i
} Bench;

/* for (bench->turn = 0; again(bench);) CALL; runs it once, then records `repeats` calls. */
static bool again(Bench *bench)
{
    if (bench->turn++ == 1) {
        bench->device.ops->synchronize(&bench->device);
        CUDA_CHECK(
            cudaStreamBeginCapture(bench->device.place.stream, cudaStreamCaptureModeThreadLocal));
    }
    return bench->turn <= 1 + bench->repeats;
}

/* Prints the least time of some rounds, because other work only makes a kernel slower. */
static void report(Bench *bench, const char *name, double bytes, double operations)
{
    const cudaStream_t stream = bench->device.place.stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec = NULL;
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    cudaEvent_t begin, end;
    CUDA_CHECK(cudaEventCreate(&begin));
    CUDA_CHECK(cudaEventCreate(&end));
    double least = 1e9;
    for (int round = 0; round < bench->rounds; round++) {
        CUDA_CHECK(cudaGraphLaunch(exec, stream)); // while it runs, what follows is queued
        CUDA_CHECK(cudaEventRecord(begin, stream));
        CUDA_CHECK(cudaGraphLaunch(exec, stream));
        CUDA_CHECK(cudaEventRecord(end, stream));
        bench->device.ops->synchronize(&bench->device);
        float milliseconds;
        CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
        const double seconds = 1e-3 * (double)milliseconds / bench->repeats;
        least = seconds < least ? seconds : least;
    }
    CUDA_CHECK(cudaEventDestroy(begin));
    CUDA_CHECK(cudaEventDestroy(end));
    CUDA_CHECK(cudaGraphExecDestroy(exec));
    CUDA_CHECK(cudaGraphDestroy(graph));
    printf("%s\t%s\t%g\t%.0f\t%.0f\n", name, bench->precision, least, bytes, operations);
}

#define MEASURE(name, bytes, operations, call) \
    do { \
        for (bench->turn = 0; again(bench);) \
            call; \
        report(bench, name, bytes, operations); \
    } while (0)

static void multiply(Bench *bench, int rows, int columns, int depth)
{
    cuda_product(&bench->device, &(CudaProduct){ .rows = rows,
                                                 .columns = columns,
                                                 .depth = depth,
                                                 .amp = bench->device.amp,
                                                 .a = bench->a,
                                                 .b = bench->b,
                                                 .b_transposed = true,
                                                 .c = bench->c });
}

/* Measures a copy of more than a cache holds, and a large product. */
static void measure_peaks(Bench *bench)
{
    const double side = bench->side, numel = side * side;
    MEASURE("peak copy", 2 * 4 * numel, 0,
            device_copy(&bench->device, bench->c, bench->a, (size_t)numel * 4, COPY_ON_DEVICE));
    MEASURE("peak product", 0, 2 * numel * side,
            multiply(bench, bench->side, bench->side, bench->side));
}

static void measure_first_conv(Bench *bench)
{
    Device *device = &bench->device;
    const double n = bench->n;
    MEASURE("conv1 + relu", 4 * n * (pixels + out1), 2 * 9 * n * out1,
            device->ops->conv_relu(device, conv1, bench->n, bench->a, bench->params,
                                   bench->params + 288, bench->b, NULL));
    MEASURE("conv1, back", 4 * n * (pixels + 2 * out1), 2 * 9 * n * out1,
            device->ops->conv_grad(device, conv1, bench->n, bench->a, bench->b, NULL, bench->params,
                                   1, bench->c, bench->grads, bench->grads + 288, NULL));
}

static void measure_second_conv(Bench *bench)
{
    Device *device = &bench->device;
    const double n = bench->n, operations = 2 * filter2 * n * out2;
    const float *weight = bench->params + 320, *bias = weight + 64 * 288;
    MEASURE("conv2 + relu + pool", n * (4 * out1 + 5 * pooled), operations,
            device->ops->conv_relu(device, conv2, bench->n, bench->a, weight, bias, bench->b,
                                   bench->argmax));
    float *dweight = bench->grads + 320, *dy = bench->b + (size_t)(n * pooled);
    MEASURE("conv2, back", n * (4 * 2 * out1 + (4 * 3 + 1) * pooled), 2 * operations,
            device->ops->conv_grad(device, conv2, bench->n, bench->a, bench->b, bench->argmax,
                                   weight, 1, dy, dweight, dweight + 64 * 288, bench->c));
}

/* Measures conv2 and its gradients in chunks of other sizes than the default, half the L2 cache. */
static void sweep_chunks(Bench *bench)
{
    Device *device = &bench->device;
    CudaState *state = cuda_state(device);
    const size_t usual = state->chunk_bytes;
    const double n = bench->n, operations = 3 * 2 * filter2 * n * out2;
    const float *weight = bench->params + 320, *bias = weight + 64 * 288;
    float *dweight = bench->grads + 320, *dy = bench->b + (size_t)(n * pooled);
    const double whole = n * 4 * places2 * filter2; // bytes of all windows; more changes nothing
    for (size_t mib = 4; mib <= LARGEST_CHUNK && (double)(mib << 19) < whole; mib *= 2) {
        char name[64];
        snprintf(name, sizeof name, "conv2, all, in chunks of %zu MiB", mib);
        state->chunk_bytes = mib << 20;
        device->ops->conv_reserve(device, conv2);
        MEASURE(name, n * (4 * 3 * out1 + 18 * pooled), operations, {
            device->ops->conv_relu(device, conv2, bench->n, bench->a, weight, bias, bench->b,
                                   bench->argmax);
            device->ops->conv_grad(device, conv2, bench->n, bench->a, bench->b, bench->argmax,
                                   weight, 1, dy, dweight, dweight + 64 * 288, bench->c);
        });
    }
    state->chunk_bytes = usual;
}

/* Measures the parts of conv2 for a chunk of images, in the cache as in training. */
static void measure_parts(Bench *bench)
{
    const cudaStream_t stream = bench->device.place.stream;
    const Amp amp = bench->device.amp;
    const double size = (double)amp_bytes(amp), windows = places2 * filter2;
    const int most = (int)((double)cuda_state(&bench->device)->chunk_bytes / (size * windows));
    const int images = bench->n < most ? bench->n : most;
    MEASURE("  im2col", images * (4 * out1 + size * windows), 0,
            cuda_im2col(conv2, images, amp, bench->a, bench->c, stream));
    MEASURE("  product", images * (size * windows + 4 * out2), 2 * filter2 * images * out2,
            multiply(bench, images * (int)places2, 64, (int)filter2));
    MEASURE("  bias, relu, pool", images * (4 * out2 + 5 * pooled), 0,
            cuda_bias_relu_pool(conv2, images, bench->a, bench->params, bench->b, bench->argmax,
                                stream));
    MEASURE("  unpool", images * (5 * pooled + size * out2), 0,
            cuda_unpool(conv2, images, amp, bench->b, bench->argmax, bench->c, stream));
    MEASURE("  col2im", images * (size * windows + 4 * out1), 0,
            cuda_col2im(conv2, images, amp, bench->c, bench->b, stream));
}

static void measure_linear(Bench *bench)
{
    Device *device = &bench->device;
    const double n = bench->n, operations = 2 * n * pooled * HIDDEN;
    const double bytes = 4 * (n * pooled + pooled * HIDDEN + n * HIDDEN);
    float *weight = bench->params, *dweight = bench->grads, *dbias = dweight + 9216 * HIDDEN;
    MEASURE("fc1 + relu", bytes, operations,
            cuda_linear(device, bench->n, 9216, HIDDEN, true, bench->a, weight, bench->params,
                        bench->b));
    MEASURE("fc1, back to weights", bytes, operations,
            cuda_linear_grad_params(device, bench->n, 9216, HIDDEN, bench->a, bench->b, dweight,
                                    dbias));
    MEASURE("fc1, back to inputs", bytes, operations,
            cuda_linear_grad_input(device, bench->n, 9216, HIDDEN, bench->b, weight, bench->c));
    MEASURE("fc2", 4 * n * (HIDDEN + CLASSES), 2 * n * HIDDEN * CLASSES,
            cuda_linear(device, bench->n, HIDDEN, CLASSES, false, bench->a, weight, bench->params,
                        bench->b));
}

static void measure_rest(Bench *bench)
{
    Device *device = &bench->device;
    const cudaStream_t stream = device->place.stream;
    const DeviceOps *ops = device->ops;
    const double n = bench->n;
    const DropoutKey key = { .row_stride = 1, .p = 0.25f };
    const CudaRows rows = { .bytes = bench->bytes,
                            .normalised = bench->params,
                            .words = (const uint32_t *)bench->labels };
    MEASURE(
        "gather", n * pixels * 5, 0,
        cuda_gather(bench->n, 784, rows, bench->rows, bench->b, (uint32_t *)bench->argmax, stream));
    MEASURE("dropout of 9,216", 8 * n * pooled, 0,
            ops->dropout(device, bench->n, 9216, key, bench->a));
    MEASURE("relu, back, of 128", 12 * n * HIDDEN, 0,
            ops->relu_grad(device, (size_t)bench->n * HIDDEN, bench->a, 1, bench->b));
    MEASURE("log_softmax and loss", 8 * n * CLASSES, 0,
            ops->nll(device, bench->n, CLASSES, bench->a, bench->labels, bench->b, bench->c));
    MEASURE("their gradient", 8 * n * CLASSES, 0,
            ops->nll_grad(device, bench->n, CLASSES, bench->b, bench->labels, bench->c));
    MEASURE("sgd with momentum", 20.0 * PARAMETERS, 0,
            ops->optim(device, PARAMETERS, bench->params, bench->grads,
                       &(OptimRule){ OPTIM_SGD, .momentum = 0.9, .state = { bench->momentum } },
                       (OptimStep){ .number = 1 }));
}

/* Returns random numbers, because a GPU takes less power, and so is faster, on zeros. */
static float *random_array(Device *device, size_t numel)
{
    Rng rng;
    rng_seed(&rng, 1);
    float *host = mem_calloc(numel, sizeof *host);
    for (size_t i = 0; i < numel; i++)
        host[i] = rng_uniform_between(&rng, -1, 1);
    float *array = device_malloc(device, numel * sizeof *array);
    device_copy(device, array, host, numel * sizeof *array, COPY_TO_DEVICE);
    free(host);
    return array;
}

static void measure(const char *precision, const Args *args, int repeats, int rounds)
{
    const size_t n = (size_t)args->batch_size;
    Bench its = {
        .precision = precision, .n = args->batch_size, .repeats = repeats, .rounds = rounds
    };
    Bench *bench = &its;
    its.side = n >= 512 ? LARGE_SIDE : SMALL_SIDE;
    device_init(&its.device, args, 0);
    const DeviceOps *ops = its.device.ops;
    ops->gather_reserve(&its.device, its.n, 784);
    ops->conv_reserve(&its.device, conv1);
    ops->conv_reserve(&its.device, conv2);
    ops->linear_reserve(&its.device, its.n, 9216, HIDDEN);
    const size_t square = (size_t)its.side * (size_t)its.side;
    const size_t chunk = cuda_state(&its.device)->chunk_bytes / 2;
    size_t numel = n * (size_t)out1;
    numel = numel > square ? numel : square;
    numel = numel > chunk ? numel : chunk;
    float **const arrays[] = { &its.a, &its.b, &its.c };
    for (int i = 0; i < 3; i++)
        *arrays[i] = random_array(&its.device, numel);
    its.params = random_array(&its.device, PARAMETERS);
    its.grads = random_array(&its.device, PARAMETERS);
    its.momentum = random_array(&its.device, PARAMETERS);
    its.bytes = device_malloc(&its.device, n * 784);
    its.argmax = device_malloc(&its.device, n * (size_t)pooled);
    its.labels = device_malloc(&its.device, n * sizeof(int32_t));
    int32_t *rows = mem_calloc(n, sizeof *rows);
    for (size_t i = 0; i < n; i++)
        rows[i] = (int32_t)i;
    its.rows = device_malloc(&its.device, n * sizeof *rows);
    device_copy(&its.device, its.rows, rows, n * sizeof *rows, COPY_TO_DEVICE);
    free(rows);
    if (its.device.amp != AMP_OFF)
        for (int i = 0; i < 2; i++) // or products could read nans
            cuda_round(numel, its.device.amp, its.c, *arrays[i], its.device.place.stream);

    measure_peaks(bench);
    measure_first_conv(bench);
    measure_second_conv(bench);
    sweep_chunks(bench);
    measure_parts(bench);
    measure_linear(bench);
    measure_rest(bench);

    void *const memory[] = { its.a,        its.b,     its.c,      its.params, its.grads,
                             its.momentum, its.bytes, its.argmax, its.labels, its.rows };
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        device_release(&its.device, memory[i]);
    device_free(&its.device);
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 4,
                "Usage: build/bench/gpu_kernels BATCH fp32|tf32|bf16 [repeats rounds]\n\n"
                "How long the GPU's kernels take at the sizes of the CNN's step.\n");
    if (argc != 3 && argc != 5 && argc != 6)
        usage_error("gpu_kernels BATCH fp32|tf32|bf16 [repeats rounds [im2col|cudnn]]");
    Args args;
    args_defaults(&args, "cnn");
    args.device = DEVICE_CUDA;
    args.batch_size = atoi(argv[1]);
    args.tf32 = strcmp(argv[2], "tf32") == 0;
    args.amp = strcmp(argv[2], "bf16") == 0 ? AMP_BF16 : AMP_OFF;
    option_set(args_option("conv"), &args, argc > 5 ? argv[5] : "auto", NULL);
    const int repeats = argc > 3 ? atoi(argv[3]) : 20, rounds = argc > 3 ? atoi(argv[4]) : 5;
    if (args.batch_size < 1 || repeats < 1 || rounds < 1)
        usage_error("gpu_kernels: rows, repeats and rounds are numbers from 1 on");
    measure(argv[2], &args, repeats, rounds);
    return 0;
}
