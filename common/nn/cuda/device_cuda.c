/* One GPU as a device: its memory, its copies, and the table of what it computes. All its work is
 * queued on one stream, so it is done in the order of the calls, and the host runs ahead: it waits
 * only when it reads a number. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/host.h"
#include "common/base/memory.h"
#include "common/nn/cuda/cuda_state.h"

enum { SCRATCH_ALIGNMENT = 256, FACTORS_BYTES = 64, LEAST_CHUNK = 8 << 20 };

void cuda_check_launch(const char *file, int line, const char *kernel)
{
    const cudaError_t error = cudaGetLastError();
    const bool has_no_code =
        error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion;
    CHECK(error == cudaSuccess, "%s:%d: %s: %s%s", file, line, kernel, cudaGetErrorString(error),
          has_no_code ? ": build it here, or with make CUDA_ARCH=all-major" : "");
}

static void *cuda_malloc(Device *device, size_t bytes)
{
    void *memory = NULL;
    const cudaError_t error = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    CHECK(error == cudaSuccess, "GPU %d has no %.1f MB left: %s; take a smaller --batch-size",
          device->place.index, 1e-6 * (double)bytes, cudaGetErrorString(error));
    CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, cuda_state(device)->stream));
    return memory;
}

static void cuda_release(Device *device, void *memory)
{
    (void)device;
    CUDA_CHECK(cudaFree(memory)); // waits for work that still uses it
}

static void cuda_synchronize(Device *device)
{
    CUDA_CHECK(cudaStreamSynchronize(cuda_state(device)->stream));
}

static void cuda_copy(Device *device, void *to, const void *from, size_t bytes, CopyKind kind)
{
    static const enum cudaMemcpyKind kinds[] = { [COPY_TO_DEVICE] = cudaMemcpyHostToDevice,
                                                 [COPY_TO_HOST] = cudaMemcpyDeviceToHost,
                                                 [COPY_ON_DEVICE] = cudaMemcpyDeviceToDevice };
    CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kinds[kind], cuda_state(device)->stream));
    if (kind != COPY_ON_DEVICE)
        cuda_synchronize(device); // from here on the host may reuse its memory
}

static void cuda_zero(Device *device, float *array, size_t count)
{
    CUDA_CHECK(cudaMemsetAsync(array, 0, count * sizeof *array, cuda_state(device)->stream));
}

static void cuda_free(Device *device)
{
    CudaState *state = cuda_state(device);
    cuda_synchronize(device);
    cuda_feed_free(device);
    cuda_product_free(device);
    CUDA_CHECK(cudaFree(device->loss_scale));
    CUDA_CHECK(cudaFree(state->scratch));
    CUDA_CHECK(cudaFree(state->factors));
    CUDA_CHECK(cudaEventDestroy(state->fork));
    CUDA_CHECK(cudaStreamDestroy(state->aside));
    CUDA_CHECK(cudaStreamDestroy(state->stream));
    free(state);
}

static const DeviceOps cuda_ops = {
    .malloc = cuda_malloc,
    .release = cuda_release,
    .copy = cuda_copy,
    .synchronize = cuda_synchronize,
    .free = cuda_free,
    .gather = cuda_feed_gather,
    .gather_reserve = cuda_feed_reserve,
    .conv_reserve = cuda_conv_reserve,
    .linear_reserve = cuda_linear_reserve,
    .conv_relu = cuda_conv_relu,
    .conv_grad = cuda_conv_grad,
    .linear = cuda_linear,
    .relu_grad = cuda_relu_grad,
    .linear_grad_params = cuda_linear_grad_params,
    .linear_grad_input = cuda_linear_grad_input,
    .dropout = cuda_dropout,
    .nll = cuda_nll,
    .nll_grad = cuda_nll_grad,
    .mse = cuda_mse,
    .mse_grad = cuda_mse_grad,
    .zero = cuda_zero,
    .clip_grads = cuda_clip_grads,
    .optim = cuda_optim,
};

/* Picks the local rank's of several GPUs; a single visible one may differ from rank to rank. With
 * tcp and mpi ranks may share GPUs, and with nccl if configured to. Surplus ranks wrap around to
 * the first. */
static int pick_gpu(const Args *args, int local_rank)
{
    const int count = gpus_visible(), ranks = device_local_ranks(args);
    if (count <= 1)
        return 0;
    const bool may_share =
        nccl_may_share() || args->backend == BACKEND_TCP || args->backend == BACKEND_MPI;
    if (ranks > count && !may_share) // the same on all ranks of a node
        usage_error("--device cuda: %d ranks on this node, but %d GPUs; start %d ranks per node, "
                    "or use --backend tcp, which lets ranks share a GPU",
                    ranks, count, count);
    if (ranks > count && log_prints_for_node())
        log_info("%d ranks share the %d GPUs of this node", ranks, count);
    return may_share ? local_rank % count : local_rank;
}

void device_cuda_init(Device *device, const Args *args)
{
    if (args_shards(args) > 0)
        usage_error("--reduce-order fixed is not for GPUs, whose products add up in an order of "
                    "cuBLAS's: use --device cpu");
    device->name = "cuda";
    device->label = "GPU";
    device->place = (MemoryLocation){ .on_gpu = true,
                                      .index = pick_gpu(args, device->local_rank),
                                      .replaying = &device->replaying };
    device->tf32 = args->tf32;
    const int count = gpus_visible();
    int driver = 0; // without one, CUDA reports that it is too old
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    if (count == 0)
        usage_error("--device cuda: there is no GPU to be used here: %s (see nvidia-smi); use "
                    "--device cpu, or leave it out",
                    driver == 0 ? "no driver is installed"
                                : cudaGetErrorString(cudaGetDeviceCount(&(int){ 0 })));
    if (device->place.index >= count)
        usage_error("--device cuda: local rank %d, but %d GPUs on this node; start %d ranks per "
                    "node",
                    device->place.index, count, count);
    CudaState *state = device->state = mem_calloc(1, sizeof *state);
    device->ops = &cuda_ops;
    CUDA_CHECK(cudaSetDevice(device->place.index));
    CUDA_CHECK(cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking));
    device->place.stream = state->stream;
    CUDA_CHECK(cudaStreamCreateWithFlags(&state->aside, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreateWithFlags(&state->fork, cudaEventDisableTiming));
    state->factors = cuda_malloc(device, FACTORS_BYTES);
    int l2_bytes;
    CUDA_CHECK(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device->place.index));
    state->chunk_bytes = l2_bytes / 2 > LEAST_CHUNK ? l2_bytes / 2 : LEAST_CHUNK;
    cuda_product_init(device);
    cuda_feed_reserve(device, 0, 0);
    if (device->amp == AMP_FP16) {
        const LossScale initial = { .scale = 65536 }; // GradScaler's default
        device->loss_scale = cuda_malloc(device, sizeof initial);
        cuda_copy(device, device->loss_scale, &initial, sizeof initial, COPY_TO_DEVICE);
    }
    cuda_scratch_reserve(device, cuda_scratch_piece(CUDA_OPTIM_PARTS * sizeof(double)));
    if (args->conv == CONV_CUDNN)
        conv_cudnn_init(device);
    if (args->cuda_graph)
        cuda_graph_init(device);
}

size_t cuda_scratch_piece(size_t bytes)
{
    return (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
}

void cuda_scratch_reserve(Device *device, size_t bytes)
{
    CudaState *state = cuda_state(device);
    if (bytes <= state->scratch_bytes)
        return;
    CUDA_CHECK(cudaFree(state->scratch));
    state->scratch = cuda_malloc(device, bytes);
    state->scratch_bytes = bytes;
}

void *cuda_scratch(const Device *device, size_t *used, size_t bytes)
{
    const CudaState *state = cuda_state(device);
    char *piece = state->scratch + *used;
    *used += cuda_scratch_piece(bytes);
    CHECK(*used <= state->scratch_bytes, "a kernel wants %zu bytes of scratch, %zu are reserved",
          *used, state->scratch_bytes);
    return piece;
}

bool loss_scale_save(Device *device, char text[LOSS_SCALE_TEXT_BYTES])
{
    if (device->loss_scale == NULL)
        return false;
    LossScale state;
    device_copy(device, &state, device->loss_scale, sizeof state, COPY_TO_HOST);
    snprintf(text, LOSS_SCALE_TEXT_BYTES, "%.9g %d %u", (double)state.scale, (int)state.good_steps,
             (unsigned)state.skipped);
    return true;
}

bool loss_scale_load(Device *device, const char *text, uint64_t step, bool import)
{
    if (device->loss_scale == NULL)
        return true;
    LossScale state = { 0 };
    int good_steps = -1, end = 0;
    unsigned skipped = 0;
    const bool valid = sscanf(text, "%f %d %u%n", &state.scale, &good_steps, &skipped, &end) == 3 &&
                       text[end] == '\0' && isfinite(state.scale) && state.scale > 0 &&
                       good_steps >= 0 && skipped <= step;
    state.good_steps = good_steps;
    state.skipped = skipped;
    if (valid && import)
        device_copy(device, device->loss_scale, &state, sizeof state, COPY_TO_DEVICE);
    return valid;
}
