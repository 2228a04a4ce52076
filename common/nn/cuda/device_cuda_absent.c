/* Stands in for device_cuda.c in builds without CUDA, which cannot use a GPU. */
#include "common/base/log.h"
#include "common/nn/device.h"

void device_cuda_init(Device *device, const Args *args)
{
    (void)device, (void)args;
    usage_error("--device cuda: this build has no CUDA part; use --device cpu, or leave it out");
}
