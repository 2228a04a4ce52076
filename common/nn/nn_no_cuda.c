/* Stands in for device_cuda.c in builds without CUDA, which cannot use a GPU. */
#include "common/base/log.h"
#include "common/nn/device.h"

void device_cuda_init(Device *device, const Args *args)
{
    (void)device, (void)args;
    usage_error("--device cuda: this build has no CUDA part; use --device cpu, or leave it out");
}

bool loss_scale_save(Device *device, char text[LOSS_SCALE_TEXT_BYTES])
{
    (void)device, (void)text;
    return false;
}

bool loss_scale_load(Device *device, const char *text, uint64_t step, bool import)
{
    (void)device, (void)text, (void)step, (void)import;
    return true;
}
