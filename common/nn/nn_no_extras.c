/* Stands in for extras/fast_cpu and extras/cuda_graph: "cpu" then uses the plain kernels. */
#include "common/base/log.h"
#include "common/nn/device.h"

void device_cpu_init(Device *device)
{
    device_plain_init(device);
}

void plain_bf16_init(Device *device)
{
    (void)device;
    usage_error("--amp bf16 on a CPU needs a build with extras/fast_cpu; leave it out, or use "
                "--device cuda");
}

void cuda_graph_init(Device *device)
{
    (void)device;
}
