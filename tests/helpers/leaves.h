/* leaves.h - for tests: what is done again and again leaves neither memory nor descriptors, and
 * memory can be made to run out. For one file of a program, in which this malloc and free count the
 * blocks in use. */
#ifndef TESTS_HELPERS_LEAVES_H
#define TESTS_HELPERS_LEAVES_H

#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/helpers/unit.h"

static atomic_long num_blocks;
__attribute__((unused)) static atomic_long blocks_left = LONG_MAX; // until there is no memory
// Frees what is not malloc's (exact.h); or NULL.
__attribute__((unused)) static bool (*free_elsewhere)(void *memory);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) // they have their own
#define needs_own_malloc() skip()
#else
#define needs_own_malloc() (void)0
// glibc's own functions, under the names for programs that replace them.
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

static inline void *counted(void *memory)
{
    num_blocks += memory != NULL;
    return memory;
}

static inline bool has_memory(void)
{
    return atomic_fetch_sub(&blocks_left, 1) > 0;
}

void *malloc(size_t bytes)
{
    return has_memory() ? counted(__libc_malloc(bytes)) : NULL;
}

void *calloc(size_t count, size_t bytes)
{
    return has_memory() ? counted(__libc_calloc(count, bytes)) : NULL;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return has_memory() ? counted(__libc_memalign(alignment, bytes)) : NULL;
}

void *realloc(void *memory, size_t bytes)
{
    if (memory == NULL)
        return malloc(bytes);
    return has_memory() ? __libc_realloc(memory, bytes) : NULL;
}

void free(void *memory)
{
    num_blocks -= memory != NULL;
    if (free_elsewhere == NULL || !free_elsewhere(memory))
        __libc_free(memory);
}
#endif

static inline int num_open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static inline void assert_leaves_nothing(void (*act)(void *context), void *context)
{
    long blocks[3]; // at first, what lasts as long as the process is allocated
    int files[3];
    for (int i = 0; i < 3; i++) {
        act(context);
        blocks[i] = num_blocks;
        files[i] = num_open_files();
    }
    assert_int_equal(blocks[2], blocks[1]);
    assert_int_equal(files[2], files[1]);
}

#endif
