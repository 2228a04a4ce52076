/* Stands in for staging_cuda.c in builds without CUDA. */
#include "common/comm/backend.h"

const StagingOps staging_ops = { .available = false };
