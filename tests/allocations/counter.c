/*
 * Linked into a program that trains, it counts every allocation between the end of one step and the
 * end of another: the program's own, libc's (fopen, printf, threads) and OpenMP's, since the whole
 * process uses the program's malloc. optim_step, which ends a step, is intercepted too (by the
 * linker's --wrap).
 *
 * ALLOCATIONS_FROM=N counts from the end of step N on (20). ALLOCATIONS_BUT=libgomp omits those
 * made by a library of this name itself. At the end of the process a line on standard error reports
 * the number up to the last step, and the callers of each:
 *
 *     allocations of process 1234: 1 from step 21 to 60
 *     calloc of 64 bytes in step 33
 *     01_single_gpu/train(+0x1234)[0x5581...]
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/nn/optim.h"

enum { MAX_SEEN = 1000, MAX_FRAMES = 24 };

typedef struct {
    const char *function;
    size_t bytes;
    unsigned long step; // step of the allocation
    void *frame[MAX_FRAMES]; // call stack
    int num_frames;
} Allocation;

static Allocation allocation[MAX_SEEN];
static atomic_bool watching;
static atomic_int seen;
static int within_steps; // count up to the last step's end; later ones belong to the run's end
static unsigned long first_step, step;
static const char *exempt; // ALLOCATIONS_BUT
static _Thread_local bool noting; // backtrace may allocate, too

/* Frames 0 to 2 are note's, malloc's, and that of malloc's caller. */
static bool is_exempt(const Allocation *a)
{
    Dl_info caller;
    return exempt != NULL && a->num_frames > 2 && dladdr(a->frame[2], &caller) != 0 &&
           strstr(caller.dli_fname, exempt) != NULL;
}

static __attribute__((noinline)) void note(const char *function, size_t bytes)
{
    if (!watching || noting)
        return;
    noting = true;
    Allocation a = { .function = function, .bytes = bytes, .step = step + 1 };
    a.num_frames = backtrace(a.frame, MAX_FRAMES);
    if (!is_exempt(&a)) {
        const int i = seen++;
        if (i < MAX_SEEN)
            allocation[i] = a;
    }
    noting = false;
}

// glibc's own functions, under the names for programs that replace them.
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes)
{
    note("malloc", bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    note("calloc", count * bytes);
    return __libc_calloc(count, bytes);
}

void *realloc(void *memory, size_t bytes)
{
    note("realloc", bytes);
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    note("aligned_alloc", bytes);
    return __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    note("memalign", bytes);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    note("posix_memalign", bytes);
    *memory = __libc_memalign(alignment, bytes);
    return *memory == NULL ? ENOMEM : 0;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    note("mmap", bytes);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
}

void __real_optim_step(Optimizer *optim);
void __wrap_optim_step(Optimizer *optim);

void __wrap_optim_step(Optimizer *optim)
{
    __real_optim_step(optim);
    step = optim->model->step;
    within_steps = seen;
    if (step == first_step)
        watching = true;
}

__attribute__((constructor)) static void counter_start(void)
{
    const char *from = getenv("ALLOCATIONS_FROM");
    exempt = getenv("ALLOCATIONS_BUT");
    first_step = from != NULL ? strtoul(from, NULL, 10) : 20;
    void *frame[1];
    backtrace(frame, 1); // the first call loads a library
}

__attribute__((destructor)) static void counter_report(void)
{
    watching = false;
    if (step <= first_step)
        return; // a process that only starts others, or too short a run
    char text[128];
    snprintf(text, sizeof text, "allocations of process %d: %d from step %lu to %lu\n",
             (int)getpid(), within_steps, first_step + 1, step);
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
    for (int i = 0; i < within_steps && i < MAX_SEEN; i++) {
        const Allocation *a = &allocation[i];
        dprintf(STDERR_FILENO, "%s of %zu bytes in step %lu\n", a->function, a->bytes, a->step);
        backtrace_symbols_fd(a->frame, a->num_frames, STDERR_FILENO);
    }
}
