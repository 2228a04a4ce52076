/*
 * gpu_ladder - the rungs of extras/gpu_ladder: whether each computes what the plain device does,
 * and how long it takes on this GPU.
 *
 *     build/bench/gpu_ladder [images [repeats]]      64 images, 50 repeats
 *
 * The time is the mean of the repeats, between two events of the GPU, after one that is not timed;
 * the caches are as the repeat before left them. The share is that of cuBLAS's product alone, whose
 * matrix of windows is there already, with factors of the same type. The status is 1 if a result is
 * wrong.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/rng.h"
#include "common/base/words.h"
#include "common/nn/cuda/cuda_state.h"
#include "extras/gpu_ladder/conv2_cuda.h"

enum { MAX_IMAGES = 4096, MAX_REPEATS = 100000 };
enum { FP16_BYTES = 2 };
enum { CHECKED = 8 }; // number of images, the last ones, that are compared
enum { X_NUMEL = IN_SIZE * IN_SIZE * CHANNELS, Y_NUMEL = WINDOWS * FILTERS }; // per image

typedef enum { FLOAT, FP16 } Precision;

typedef struct {
    const char *name;
    void (*run)(const Conv2 *conv);
    Precision precision; // the factors' type
    int min_capability; // least compute capability: 75 is sm_75
} Rung;

/* fp16 rounds each factor by up to 1 part in 2,048. cuBLAS's product alone comes first, in either
 * precision: the later lines have its share. */
static const Rung rungs[] = {
    { "cuBLAS alone", conv2_cublas, FLOAT, 0 },
    { "the same, fp16", conv2_cublas16, FP16, 0 },
    { "naive", conv2_naive, FLOAT, 0 },
    { "shared tiles", conv2_shared_tiles, FLOAT, 0 },
    { "im2col, cuBLAS", conv2_im2col, FLOAT, 0 },
    { "register tiles", conv2_register_tiles, FLOAT, 0 },
    { "tensor cores", conv2_tensor_cores, FP16, 75 },
    { "wide loads", conv2_wide_loads, FP16, 75 },
    { "two buffers", conv2_two_buffers, FP16, 75 },
    { "warp tiles", conv2_warp_tiles, FP16, 75 },
    { "ldmatrix", conv2_ldmatrix, FP16, 80 },
};
enum { NUM_RUNGS = sizeof rungs / sizeof rungs[0] };
/* Bounds of the largest error; the numbers themselves are below 100. */
static const double tolerance[] = { [FLOAT] = 1e-4, [FP16] = 5e-2 };

static int number(const char *text, int most)
{
    char *end;
    const long value = strtol(text, &end, 10);
    if (*end != '\0' || value < 1 || value > most)
        usage_error("gpu_ladder [images [repeats]]: %s is not a number from 1 to %d", text, most);
    return (int)value;
}

static float *random_floats(size_t numel, uint64_t seed)
{
    Rng rng;
    rng_seed(&rng, seed);
    float *numbers = mem_calloc(numel, sizeof *numbers);
    for (size_t i = 0; i < numel; i++)
        numbers[i] = rng_uniform_between(&rng, -1, 1);
    return numbers;
}

static float *to_device(Device *device, const float *host, size_t numel)
{
    float *memory = device_malloc(device, numel * sizeof *memory);
    device_copy(device, memory, host, numel * sizeof *memory, COPY_TO_DEVICE);
    return memory;
}

/* Returns conv2 by the plain device, which applies relu: z = relu(z) - relu(-z), both exact. */
static float *expected(int images, const float *x, float *weight)
{
    const ConvShape shape = { CHANNELS, IN_SIZE, FILTERS, KERNEL };
    const float bias[FILTERS] = { 0 };
    const size_t numel = (size_t)images * Y_NUMEL;
    float *y = mem_calloc(numel, sizeof *y), *negative = mem_calloc(numel, sizeof *negative);
    Device plain;
    device_init(&plain, &(Args){ .device = DEVICE_PLAIN, .threads = 1 }, 0);
    plain.ops->conv_relu(&plain, shape, images, x, weight, bias, y, NULL);
    for (int i = 0; i < FILTERS * DEPTH; i++)
        weight[i] = -weight[i];
    plain.ops->conv_relu(&plain, shape, images, x, weight, bias, negative, NULL);
    for (int i = 0; i < FILTERS * DEPTH; i++)
        weight[i] = -weight[i];
    for (size_t i = 0; i < numel; i++)
        y[i] -= negative[i];
    device_free(&plain);
    free(negative);
    return y;
}

static double seconds_of(const Rung *rung, const Conv2 *conv, int repeats)
{
    cudaEvent_t begin, end;
    CUDA_CHECK(cudaEventCreate(&begin));
    CUDA_CHECK(cudaEventCreate(&end));
    rung->run(conv);
    CUDA_CHECK(cudaEventRecord(begin, conv->stream));
    for (int i = 0; i < repeats; i++)
        rung->run(conv);
    CUDA_CHECK(cudaEventRecord(end, conv->stream));
    CUDA_CHECK(cudaEventSynchronize(end));
    float milliseconds;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    CUDA_CHECK(cudaEventDestroy(begin));
    CUDA_CHECK(cudaEventDestroy(end));
    return 1e-3 * (double)milliseconds / repeats;
}

/* Returns the largest error in the last `images` images, or nan if there is a nan. */
static double largest_error(Device *device, const Conv2 *conv, const float *y, int images)
{
    const size_t numel = (size_t)images * Y_NUMEL;
    float *result = mem_calloc(numel, sizeof *result);
    device_copy(device, result, conv->y + (size_t)(conv->images - images) * Y_NUMEL,
                numel * sizeof *result, COPY_TO_HOST);
    double largest = 0;
    for (size_t i = 0; i < numel; i++) {
        const double error = fabs((double)result[i] - (double)y[i]);
        largest = error > largest || isnan(error) ? error : largest;
    }
    free(result);
    return largest;
}

/* Runs a rung and prints its line. Returns false if its result is wrong. `cublas` has the times of
 * cuBLAS alone, which the first two rungs fill in. */
static bool try_rung(Device *device, const Rung *rung, const Conv2 *conv, int repeats,
                     const float *expected_y, int checked, double cublas[2])
{
    const double numel = (double)conv->images * Y_NUMEL;
    // All bits set is a nan, so that what a rung does not write shows.
    CUDA_CHECK(cudaMemsetAsync(conv->y, 0xff, (size_t)numel * sizeof *conv->y, conv->stream));
    const double seconds = seconds_of(rung, conv, repeats);
    const double error = largest_error(device, conv, expected_y, checked);
    const bool right = error <= tolerance[rung->precision];
    if (rung < rungs + 2)
        cublas[rung->precision] = seconds;
    log_print("%-16s %10.3f %9.2f %9.1f%% %9.1e%s", rung->name, 1e3 * seconds,
              2e-12 * numel * DEPTH / seconds, 100 * cublas[rung->precision] / seconds, error,
              right ? "" : "  WRONG");
    return right;
}

static bool try_all(Device *device, const Conv2 *conv, int repeats, const float *expected_y,
                    int checked)
{
    int gpu;
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDevice(&gpu));
    CUDA_CHECK(cudaGetDeviceProperties(&properties, gpu));
    const int capability = 10 * properties.major + properties.minor;
    log_print("%s, %d images, mean of %d", properties.name, conv->images, repeats);
    log_print("%-16s %10s %9s %10s %9s", "rung", "ms", "TFLOP/s", "of cuBLAS", "error");
    double cublas[2];
    bool right = true;
    conv2_prepare(conv);
    for (int i = 0; i < NUM_RUNGS; i++)
        if (capability < rungs[i].min_capability)
            log_print("%-16s needs a GPU of sm_%d or newer", rungs[i].name,
                      rungs[i].min_capability);
        else
            right =
                try_rung(device, &rungs[i], conv, repeats, expected_y, checked, cublas) && right;
    return right;
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 2,
                "Usage: build/bench/gpu_ladder [images [repeats]]\n\n"
                "Nine versions of a convolution on the GPU: whether each is right, how long it "
                "takes, and\nwhat share of cuBLAS's speed that is.\n");
    const int images = argc > 1 ? number(argv[1], MAX_IMAGES) : 64;
    const int repeats = argc > 2 ? number(argv[2], MAX_REPEATS) : 50;
    const int checked = images < CHECKED ? images : CHECKED;
    const size_t x_numel = (size_t)images * X_NUMEL, windows = (size_t)images * WINDOWS;
    Device device;
    device_init(&device, &(Args){ .device = DEVICE_CUDA }, 0);

    float *x = random_floats(x_numel, 1), *weight = random_floats(FILTERS * DEPTH, 2);
    float *expected_y = expected(checked, x + x_numel - (size_t)checked * X_NUMEL, weight);
    float *device_x = to_device(&device, x, x_numel);
    float *device_weight = to_device(&device, weight, FILTERS * DEPTH);
    const Conv2 conv = { .images = images,
                         .x = device_x,
                         .weight = device_weight,
                         .y = device_malloc(&device, windows * FILTERS * sizeof(float)),
                         .columns = device_malloc(&device, windows * DEPTH * sizeof(float)),
                         .x16 = device_malloc(&device, x_numel * FP16_BYTES),
                         .weight16 = device_malloc(&device, FILTERS * DEPTH * FP16_BYTES),
                         .columns16 = device_malloc(&device, windows * DEPTH * FP16_BYTES),
                         .blas = cuda_state(&device)->blas,
                         .stream = device.place.stream };
    const bool right = try_all(&device, &conv, repeats, expected_y, checked);

    device_release(&device, conv.columns16);
    device_release(&device, conv.weight16);
    device_release(&device, conv.x16);
    device_release(&device, conv.columns);
    device_release(&device, conv.y);
    device_release(&device, device_weight);
    device_release(&device, device_x);
    device_free(&device);
    free(expected_y);
    free(weight);
    free(x);
    return right ? 0 : 1;
}
