/* Stands in for extras/fast_cpu in builds without it: "cpu" then uses the plain kernels. */
#include "common/nn/device.h"

void device_cpu_init(Device *device)
{
    device_plain_init(device);
}
