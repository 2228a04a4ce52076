/* cuda.h - a failed call of CUDA or cuBLAS ends this process with one line. */
#ifndef COMMON_BASE_CUDA_H
#define COMMON_BASE_CUDA_H

#include <cuda_runtime_api.h>

#include "common/base/host.h"
#include "common/base/log.h"

/* An asynchronous failure (a kernel's bad address) shows at a later call: CUDA_LAUNCH_BLOCKING=1 in
 * the environment makes every launch wait, so that the line names the right one. */
#define CUDA_CHECK(call) \
    do { \
        const cudaError_t cuda_error = (call); \
        CHECK(cuda_error == cudaSuccess, "%s:%d: %s: %s", __FILE__, __LINE__, #call, \
              cudaGetErrorString(cuda_error)); \
    } while (0)

/* Returns whether the stream's work is being recorded in a graph. */
static inline bool cuda_is_captured(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status;
    CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
    return status != cudaStreamCaptureStatusNone;
}

static inline bool cuda_is_on_gpu(const void *memory)
{
    struct cudaPointerAttributes attributes;
    CUDA_CHECK(cudaPointerGetAttributes(&attributes, memory));
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

/* NCCL 2.30 and later let ranks share a GPU if this variable is 1 (experimental). */
#define NCCL_MAY_SHARE "NCCL_MULTI_RANK_GPU_ENABLE"
static inline bool nccl_may_share(void)
{
    return host_env_count(NCCL_MAY_SHARE) == 1;
}

#endif
