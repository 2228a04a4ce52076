/* memory.h - host memory: aligned for vectors, never NULL. */
#ifndef COMMON_BASE_MEMORY_H
#define COMMON_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* count elements of size bytes each, aligned to 64 bytes. Dies when there is not so much memory, or
 * where the product overflows. Free it with free(). */
void *mem_alloc(size_t count, size_t size);

/* The same, all zero. */
void *mem_calloc(size_t count, size_t size);

/* Has the machine so many bytes to give? If not, *available says how many it has. The kernel
 * overcommits, and kills processes that use the memory it promised. Below 64 MiB: yes, unseen. */
bool mem_fits(size_t bytes, size_t *available);

#endif
