/* Stands in for register_nccl.c where there is no NCCL. */
#include "common/base/log.h"
#include "common/comm/backend.h"

static void describe(const ProcessGroup *pg, const Args *args, char *text, size_t bytes)
{
    (void)pg, (void)text, (void)bytes;
    if (args->nccl_register)
        usage_error("--nccl-register on: this build has no NCCL part");
}

const GroupHooks register_hooks = { .describe = describe };
