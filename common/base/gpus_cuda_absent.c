/* Stands in for CUDA in builds without it. */
#include "common/base/host.h"

int gpus_visible(void)
{
    return 0;
}

int gpus_count(void)
{
    return -1;
}
