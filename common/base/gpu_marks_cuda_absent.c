/* Stands in for marks in builds without CUDA, which have no GPU to make them. */
#include "common/base/gpu_marks.h"

#include <stddef.h>

void gpu_marks_stream(void *stream)
{
    (void)stream;
}

bool gpu_marks_start(void)
{
    return false;
}

void gpu_marks_pause(bool paused)
{
    (void)paused;
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
