/* Stands in for extras/cudnn in builds without it, or without cuDNN. */
#include "common/base/log.h"
#include "common/nn/device.h"

void conv_cudnn_init(Device *device)
{
    (void)device;
    usage_error("--conv cudnn: this build has no cuDNN part (cudnn.h); leave it out");
}
