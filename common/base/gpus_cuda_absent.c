/* Stands in for CUDA in builds without it: they use no GPU, but may start a program that does. */
#include "common/base/host.h"

int gpus_visible(void)
{
    return 0;
}

int gpus_count(void)
{
    return gpus_listed();
}
