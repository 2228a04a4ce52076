/*
 * nvtx.h - names for what the host does, in the timelines of NVIDIA's tools: nsys profile PROGRAM.
 *
 * NVTX passes them to a tool that has injected itself into this process; without one they cost
 * nothing.
 */
#ifndef EXTRAS_WATCH_NVTX_H
#define EXTRAS_WATCH_NVTX_H

#include <stdbool.h>

/* Is a tool listening? Call it once, before the others. */
bool nvtx_listens(void);

/* Until the matching pop the calling thread is in the range "KIND NAME"; ranges may nest. */
void nvtx_push(const char *kind, const char *name);
void nvtx_pop(void);

#endif
