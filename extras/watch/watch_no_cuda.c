/* Stands in for marks and NVTX in builds without CUDA, which have no GPU to record them. */
#include <stddef.h>

#include "extras/watch/gpu_marks.h"
#include "extras/watch/nvtx.h"

bool gpu_marks_start(void *stream)
{
    (void)stream;
    return false;
}

GpuMark gpu_mark(void *stream)
{
    (void)stream;
    return 0;
}

double *gpu_marks_stop(void)
{
    return NULL;
}

bool nvtx_listens(void)
{
    return false;
}

void nvtx_push(const char *kind, const char *name)
{
    (void)kind, (void)name;
}

void nvtx_pop(void)
{
}
