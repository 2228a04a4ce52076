/* Stands in for CUDA in builds without it: no GPU, and all memory is the host's. */
#include <stdlib.h>
#include <string.h>

#include "common/base/host.h"
#include "common/base/memory.h"

int gpus_visible(void)
{
    return 0;
}

int gpus_count(void)
{
    return -1;
}

void *place_alloc(MemoryLocation place, size_t bytes)
{
    (void)place;
    return mem_alloc(bytes, 1);
}

void place_free(MemoryLocation place, void *array)
{
    (void)place;
    free(array);
}

void place_copy(MemoryLocation place, void *to, const void *from, size_t bytes)
{
    (void)place;
    memcpy(to, from, bytes);
}
