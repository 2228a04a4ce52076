/* Stands in for the nccl backend in builds without CUDA and NCCL. */
#include "common/comm/backend.h"

const Backend backend_nccl = {
    .name = "nccl",
    .remedy = "install NCCL (developer.nvidia.com/nccl) beside CUDA and run make again"
};
