/* Stands in for gpus_cuda.c in builds without CUDA, which have no GPUs. */
#include "common/base/host.h"

int gpus_visible(void)
{
    return 0;
}

int gpus_count(void)
{
    return -1;
}
