/* exact.h - for tests: every array of mem_alloc and mem_calloc ends where a page ends behind which
 * nothing may be touched, so a loop that goes one element too far ends the process. It is not
 * touched after free, either. For one file of a program, in which both functions are wrapped
 * (tests/rules.mk). */
#ifndef TESTS_HELPERS_EXACT_H
#define TESTS_HELPERS_EXACT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/helpers/leaves.h"

void *__wrap_mem_alloc(size_t count, size_t size), *__wrap_mem_calloc(size_t count, size_t size);

// Weak, since not every program that includes this wraps them: builds for other processors do not.
__attribute__((weak)) void *__real_mem_alloc(size_t count, size_t size);
__attribute__((weak)) void *__real_mem_calloc(size_t count, size_t size);

__attribute__((unused)) static atomic_long num_arrays; // in use

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) // they watch arrays themselves
void *__wrap_mem_alloc(size_t count, size_t size)
{
    return __real_mem_alloc(count, size);
}

void *__wrap_mem_calloc(size_t count, size_t size)
{
    return __real_mem_calloc(count, size);
}

static inline bool is_exact(const void *array)
{
    return array != NULL;
}
#else
#define EXACT_PAGE ((size_t)4096)
#define EXACT_HEAD ((size_t)64) // before an array; has the number of bytes from there to its end
#define EXACT_SPACE ((size_t)1 << 40) // of addresses, each used once

static char *_Atomic exact_base;
static atomic_size_t exact_used;

static inline bool is_exact(const void *array)
{
    return exact_base != NULL && (const char *)array >= exact_base &&
           (const char *)array < exact_base + EXACT_SPACE;
}

static bool exact_free(void *array)
{
    if (!is_exact(array))
        return false;
    char *head = (char *)((uintptr_t)((char *)array - EXACT_HEAD) / EXACT_PAGE * EXACT_PAGE);
    size_t total;
    memcpy(&total, head, sizeof total);
    madvise(head, total, MADV_DONTNEED);
    mprotect(head, total, PROT_NONE);
    num_arrays--;
    return true;
}

/* Returns an array whose bytes are `filling`, or NULL if it is too large. */
static void *exact_array(size_t count, size_t size, int filling)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes >= (size_t)1 << 30)
        return NULL;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (exact_base == NULL)
        exact_base = mmap(NULL, EXACT_SPACE, PROT_NONE, flags, -1, 0);
    const size_t total = (bytes + EXACT_HEAD + EXACT_PAGE - 1) / EXACT_PAGE * EXACT_PAGE;
    char *head = exact_base + atomic_fetch_add(&exact_used, total + EXACT_PAGE);
    if (head + total >= exact_base + EXACT_SPACE ||
        mprotect(head, total, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    memcpy(head, &total, sizeof total);
    free_elsewhere = exact_free;
    num_arrays++;
    num_blocks++;
    return memset(head + total - bytes, filling, bytes);
}

void *__wrap_mem_alloc(size_t count, size_t size)
{
    void *array = exact_array(count, size, 0x55); // it may hold anything
    return array != NULL ? array : __real_mem_alloc(count, size);
}

void *__wrap_mem_calloc(size_t count, size_t size)
{
    void *array = exact_array(count, size, 0);
    return array != NULL ? array : __real_mem_calloc(count, size);
}

#endif

#endif
