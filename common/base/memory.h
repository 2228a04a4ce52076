/* memory.h - host memory: zeroed, aligned for vectors, never NULL. */
#ifndef COMMON_BASE_MEMORY_H
#define COMMON_BASE_MEMORY_H

#include <stddef.h>

/* count elements of size bytes each, all zero, aligned to 64 bytes. Dies when there is no memory
 * or when count * size overflows. Free it with free(). */
void *mem_calloc(size_t count, size_t size);

#endif
