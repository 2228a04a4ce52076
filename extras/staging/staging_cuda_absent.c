/* Stands in for staging_cuda.c in builds without CUDA: all memory is the host's. */
#include "common/comm/backend.h"

const StagingOps staging_ops;
