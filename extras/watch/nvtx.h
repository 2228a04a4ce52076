/*
 * nvtx.h - names for the host's work, in the timelines of NVIDIA's tools: nsys profile PROGRAM.
 *
 * NVTX passes them to a tool that has injected itself into this process; without one they cost
 * nothing.
 */
#ifndef EXTRAS_WATCH_NVTX_H
#define EXTRAS_WATCH_NVTX_H

#include <stdbool.h>

/* Returns true if a tool is attached. Call it once, before the others. */
bool nvtx_listens(void);

/* Puts the calling thread into the range "KIND NAME" until the matching pop; ranges may nest. */
void nvtx_push(const char *kind, const char *name);
void nvtx_pop(void);

#endif
