/*
 * Code that exits in the middle leaves its memory to the end of the process, which does not come
 * here. So the sanitizer's hooks report all allocations, libraries' as well, and memory left by a
 * run is freed after it. A table of pointers with open addressing; freed ones leave a gap that is
 * not reused in the same run.
 */
#include "tests/fuzz/memory.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { SLOTS = 1 << 18 };

static const volatile char gap; // its address stands for a pointer that has been freed
static const volatile void *slots[SLOTS];
static uint32_t used[SLOTS]; // the slots in use, in order
static uint32_t num_used, num_live;
static _Thread_local bool watching; // thread-local, because the fuzzer has its own threads

/* Provided by the sanitizer; absent in builds without it. */
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *, size_t),
                                              void (*free_hook)(const volatile void *))
    __attribute__((weak));

/* Returns a pointer's slot, or the empty slot where it would be. */
static uint32_t find(const volatile void *pointer)
{
    uint32_t slot = (uint32_t)(((uintptr_t)pointer >> 4) * 0x9e3779b1u) % SLOTS;
    while (slots[slot] != NULL && slots[slot] != pointer)
        slot = (slot + 1) % SLOTS;
    return slot;
}

static void on_malloc(const volatile void *pointer, size_t size)
{
    (void)size;
    if (!watching || pointer == NULL || num_used == SLOTS / 2) // a full table may miss leaks
        return;
    const uint32_t slot = find(pointer);
    slots[slot] = pointer;
    used[num_used++] = slot;
    num_live++;
}

static void on_free(const volatile void *pointer)
{
    if (!watching || pointer == NULL)
        return;
    const uint32_t slot = find(pointer);
    if (slots[slot] == NULL)
        return;
    slots[slot] = &gap;
    num_live--;
}

void memory_watch(void)
{
    static bool installed;
    if (!installed && __sanitizer_install_malloc_and_free_hooks != NULL)
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    installed = true;
    watching = true;
}

bool memory_is_left(void)
{
    return num_live > 0;
}

void memory_release(void)
{
    watching = false;
    for (uint32_t i = 0; i < num_used; i++) {
        if (slots[used[i]] != &gap)
            free((void *)slots[used[i]]);
        slots[used[i]] = NULL;
    }
    num_used = num_live = 0;
}
