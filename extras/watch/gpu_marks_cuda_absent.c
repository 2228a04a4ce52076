/* Stands in for marks in builds without CUDA, which have no GPU to record them. */
#include "extras/watch/gpu_marks.h"

#include <stddef.h>

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
