/*
 * nvtx.h - names for what the host does, in the pictures of NVIDIA's tools: nsys profile PROGRAM.
 *
 * NVTX hands them to a tool that has put itself into this process; without one there is nothing to
 * hand over, and nothing is.
 */
#ifndef COMMON_BASE_NVTX_H
#define COMMON_BASE_NVTX_H

#include <stdbool.h>

/* Does a tool listen? To be asked once, before the others. */
bool nvtx_listens(void);

/* From here to the pop the calling thread does "KIND NAME"; ranges may lie inside one another. */
void nvtx_push(const char *kind, const char *name);
void nvtx_pop(void);

#endif
