/* Stands in for register_nccl.c where there is no NCCL. */
#include "common/base/log.h"
#include "extras/group/group_extras.h"

void register_check(const ProcessGroup *pg, const Args *args)
{
    (void)pg;
    if (args->nccl_register)
        usage_error("--nccl-register on: this build has no NCCL part");
}

void register_formed(ProcessGroup *pg, const Args *args)
{
    (void)pg, (void)args;
}

void register_leaving(ProcessGroup *pg)
{
    (void)pg;
}
