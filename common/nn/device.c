/* Picks the device of this rank; after that every call goes through its table. Ranks on a CPU
 * divide the cores: more threads than cores would mostly wait for each other. */
#include "common/nn/device.h"

#include "common/base/host.h"
#include "common/base/log.h"

enum { MAX_THREADS = 1024 }; // the limit of --threads

int device_local_ranks(const Args *args)
{
    const int counted = host_env_count("LOCAL_WORLD_SIZE");
    const int count = counted > 0 ? counted : args->nproc;
    return count > 0 ? count : 1;
}

static int num_threads(const Args *args)
{
    if (args->threads > 0)
        return args->threads;
    const int wanted = host_env_count("OMP_NUM_THREADS");
    if (wanted > 0)
        return wanted < MAX_THREADS ? wanted : MAX_THREADS;
    const int share = host_num_cores() / device_local_ranks(args);
    return share > 0 ? share : 1;
}

/* Returns true for cuda; "auto" is cuda if every rank has a GPU of its own, or sees exactly one. */
static bool is_cuda_requested(const Args *args)
{
    if (args->device != DEVICE_AUTO)
        return args->device == DEVICE_CUDA;
    if (args_shards(args) > 0) // a GPU does not add in that order
        return false;
    const int count = gpus_visible();
    return count == 1 || (count > 0 && device_local_ranks(args) <= count);
}

void device_init(Device *device, const Args *args, int local_rank)
{
    *device = (Device){ .local_rank = local_rank, .amp = args->amp, .threads = 1 };
    if (is_cuda_requested(args)) {
        device_cuda_init(device, args);
        return;
    }
    if (args->tf32)
        usage_error("--tf32 on: a CPU has no such numbers; leave it out, or use --device cuda");
    if (args->cuda_graph)
        usage_error("--cuda-graph on: a CPU has no graphs; leave it out, or use --device cuda");
    if (args->conv != CONV_AUTO)
        usage_error("--conv %s is for GPUs: leave it out, or use --device cuda",
                    args->conv == CONV_CUDNN ? "cudnn" : "im2col");
    if (device->amp == AMP_FP16)
        usage_error("--amp fp16 needs a GPU: use --amp bf16, or --device cuda");
    const bool plain = args->device == DEVICE_PLAIN;
    device->name = plain ? "plain" : "cpu";
    device->label = "CPU";
    device->threads = num_threads(args);
    (plain ? device_plain_init : device_cpu_init)(device);
}

void device_free(Device *device)
{
    device->ops->free(device);
}

int device_count(const Args *args)
{
    const bool may = args->device == DEVICE_AUTO || args->device == DEVICE_CUDA;
    const int count = may ? gpus_count() : 0;
    return count > 0 ? count : 2;
}
