/* nvToolsExt.h - the part of NVTX that the project calls, as the stand-in has it. Values are
 * NVTX's. */
#ifndef STAND_IN_NVTOOLSEXT_H
#define STAND_IN_NVTOOLSEXT_H

#include <stdint.h>

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE ((uint16_t)sizeof(nvtxEventAttributes_t))
#define NVTX_MESSAGE_TYPE_ASCII 1

typedef struct nvtxDomainRegistration_st *nvtxDomainHandle_t;
typedef struct {
    uint16_t version, size;
    int32_t messageType;
    union {
        const char *ascii;
    } message;
} nvtxEventAttributes_t;

nvtxDomainHandle_t nvtxDomainCreateA(const char *name); // NULL if there is no tool
int nvtxDomainRangePushEx(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes);
int nvtxDomainRangePop(nvtxDomainHandle_t domain);

#endif
