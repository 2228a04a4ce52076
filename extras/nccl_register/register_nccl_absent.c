/* Stands in for register_nccl.c in builds without NCCL. */
#include "common/base/log.h"
#include "common/comm/backend.h"

static void check(const ProcessGroup *pg, const Args *args)
{
    (void)pg;
    if (args->nccl_register)
        usage_error("--nccl-register on: this build has no NCCL part");
}

const GroupHooks register_hooks = { .check = check };
