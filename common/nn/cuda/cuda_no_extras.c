/* Stands in for extras/cuda_graph and extras/cudnn in builds with CUDA and without extras. */
#include "common/base/log.h"
#include "common/nn/device.h"

void cuda_graph_init(Device *device)
{
    (void)device;
}

void conv_cudnn_init(Device *device)
{
    (void)device;
    usage_error("--conv cudnn: this build has no cuDNN part (cudnn.h); leave it out");
}
