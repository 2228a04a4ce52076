/* Stands in for the way through the host in builds without CUDA, where no group is on a GPU. */
#include "common/comm/nccl/staging.h"

const bool staging_available = false;

void staging_wrap(ProcessGroup *pg)
{
    (void)pg;
}
