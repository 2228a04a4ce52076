/*
 * NVTX is a header: its calls go to the tool that the environment names (NVTX_INJECTION64_PATH,
 * which nsys sets), or nowhere. Without a tool, no domain can be created.
 */
#include "extras/watch/nvtx.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

static nvtxDomainHandle_t domain; // NULL if no tool is attached

bool nvtx_listens(void)
{
    if (domain == NULL)
        domain = nvtxDomainCreateA("ddp.c");
    return domain != NULL;
}

void nvtx_push(const char *kind, const char *name)
{
    if (domain == NULL)
        return;
    char text[64]; // only "conv1" of "conv1.weight", as in a trace
    snprintf(text, sizeof text, "%s %.*s", kind, (int)strcspn(name, "."), name);
    const nvtxEventAttributes_t attributes = { .version = NVTX_VERSION,
                                               .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                               .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                               .message.ascii = text };
    nvtxDomainRangePushEx(domain, &attributes);
}

void nvtx_pop(void)
{
    if (domain != NULL)
        nvtxDomainRangePop(domain);
}
