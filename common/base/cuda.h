/* cuda.h - a failed call of CUDA or cuBLAS ends this process with one line. For files that call
 * them. */
#ifndef COMMON_BASE_CUDA_H
#define COMMON_BASE_CUDA_H

#include <cuda_runtime_api.h>

#include "common/base/log.h"

/* An asynchronous failure (a kernel's bad address) shows at a later call: CUDA_LAUNCH_BLOCKING=1 in
 * the environment makes every launch wait, so that the line names the right one. */
#define CUDA_CHECK(call) \
    do { \
        const cudaError_t cuda_error = (call); \
        CHECK(cuda_error == cudaSuccess, "%s:%d: %s: %s", __FILE__, __LINE__, #call, \
              cudaGetErrorString(cuda_error)); \
    } while (0)

#endif
