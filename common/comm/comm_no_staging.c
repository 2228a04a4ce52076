/* Stands in for extras/staging where that or CUDA is left out: all memory is the host's. */
#include "common/comm/backend.h"

const bool has_staging = false;

struct Staging *staging_init(const ProcessGroup *pg)
{
    (void)pg;
    return NULL;
}

long staging_start(struct Staging *staging, const Collective *collective)
{
    (void)staging, (void)collective;
    return 0;
}

void staging_wait(struct Staging *staging, long ticket)
{
    (void)staging, (void)ticket;
}

void staging_free(struct Staging *staging)
{
    (void)staging;
}
