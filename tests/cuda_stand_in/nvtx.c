/*
 * NVTX with a tool that logs to PREFIX.PID, if CUDA_STAND_IN_NVTX=PREFIX is set, a line for each
 * range when it begins, indented by its depth. A range that is popped twice, or never, ends the
 * program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "include/nvtx3/nvToolsExt.h"
#include "stand_in.h"

struct nvtxDomainRegistration_st {
    FILE *file;
};

static _Thread_local int depth;

static void check_end(void)
{
    if (depth != 0)
        stand_in_fail("the program ends inside of %d NVTX ranges", depth);
}

nvtxDomainHandle_t nvtxDomainCreateA(const char *name)
{
    static struct nvtxDomainRegistration_st domain;
    const char *prefix = getenv("CUDA_STAND_IN_NVTX");
    if (prefix == NULL)
        return NULL;
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", prefix, (int)getpid());
    domain.file = fopen(path, "we");
    if (domain.file == NULL)
        stand_in_fail("cannot write %s", path);
    setlinebuf(domain.file);
    fprintf(domain.file, "domain %s\n", name);
    atexit(check_end);
    return &domain;
}

int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
    if (attributes->version != NVTX_VERSION || attributes->size != sizeof *attributes ||
        attributes->messageType != NVTX_MESSAGE_TYPE_ASCII)
        stand_in_fail("NVTX attributes that say nothing");
    fprintf(domain->file, "%*s%s\n", depth, "", attributes->message.ascii);
    return depth++;
}

int nvtxDomainRangePop(nvtxDomainHandle_t domain)
{
    (void)domain;
    if (depth == 0)
        stand_in_fail("an NVTX range is popped that was not pushed");
    return --depth;
}
