/* Stands in for extras/cuda_graph in builds without it, which do not have --cuda-graph. */
#include "common/nn/device.h"

void cuda_graph_init(Device *device)
{
    (void)device;
}
