/* cuda_pipeline_primitives.h - asynchronous copies into shared memory, as in CUDA
 * (copy_async.c). */
#ifndef STAND_IN_CUDA_PIPELINE_PRIMITIVES_H
#define STAND_IN_CUDA_PIPELINE_PRIMITIVES_H

#include "cuda_runtime.h"

static inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes)
{
    stand_in_copy_async(to, from, bytes);
}

static inline void __pipeline_commit(void)
{
    stand_in_copy_commit();
}

static inline void __pipeline_wait_prior(size_t newest)
{
    stand_in_copy_wait((int)newest);
}

#endif
