/* Stands in for the way through the host in builds without CUDA, where no group is on a GPU. */
#include "common/comm/nccl/staging.h"

const bool staging_available = false;

void staging_init(ProcessGroup *pg)
{
    (void)pg;
}

void staging_drain(Staging *staging)
{
    (void)staging;
}

void staging_free(ProcessGroup *pg)
{
    (void)pg;
}

long staging_start(ProcessGroup *pg, const Collective *collective)
{
    return pg->backend->start(pg, collective);
}

void staging_wait(ProcessGroup *pg, long ticket)
{
    pg->backend->wait(pg, ticket);
}
