/*
 * Device memory: pages without access. A kernel that accesses them faults, and the array is opened
 * to it if it is on its device, until its work is done. Each array ends at the end of its last
 * page, as nearly as its alignment permits, with a page without access on each side; the rest of
 * its pages is filled with a pattern. Addresses are never reused.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arrays.h"

#define GPU_SPACE ((size_t)128 << 30) // address space per GPU, never reused

enum { ALIGNMENT = 256, MAX_ARRAYS = 1 << 16, NONSENSE = 0xff };

static Array arrays[MAX_ARRAYS]; // in address order within each GPU
static int num_arrays;
static char *space; // the address space of all GPUs
static size_t used_space[MAX_GPUS], used_bytes[MAX_GPUS];
static int open_device = -1;
static const char *open_work;

typedef struct Pinned {
    struct Pinned *next;
    char *memory;
    size_t bytes;
    bool registered; // true if it was not allocated here
} Pinned;
static Pinned *pinned;

static Array *find_array(const void *address)
{
    for (int i = 0; i < num_arrays; i++)
        if ((const char *)address >= arrays[i].pages - PAGE &&
            (const char *)address < arrays[i].pages + arrays[i].page_bytes + PAGE)
            return &arrays[i];
    return NULL;
}

void array_protect(Array *array, int access)
{
    if (mprotect(array->pages, array->page_bytes, access) != 0)
        stand_in_fail("mprotect of an array of %zu bytes failed", array->bytes);
    array->open = access != PROT_NONE;
}

/* Opens an array, or dies with the name of the invalid accessor: the host, or a kernel. */
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    const char *address = info->si_addr;
    if (signal_number == SIGILL && open_work != NULL)
        stand_in_fail("%s: a vector that is not aligned, or an index out of its range", open_work);
    if (space == NULL || address < space || address >= space + MAX_GPUS * GPU_SPACE) {
        signal(signal_number, SIG_DFL); // an ordinary fault, which will be raised again
        return;
    }
    Array *array = find_array(address);
    const bool inside =
        array != NULL && address >= array->pages && address < array->pages + array->page_bytes;
    if (open_work != NULL && inside && !array->freed && array_reached(array, open_device)) {
        array_protect(array, PROT_READ | PROT_WRITE);
        return;
    }
    char where[128] = "where no array is or was";
    if (array != NULL)
        snprintf(where, sizeof where, "at byte %ld of an array of %zu%s", address - array->begin,
                 array->bytes, array->freed ? ", which was freed" : "");
    if (open_work == NULL)
        stand_in_fail("the host touches device memory %s", where);
    stand_in_fail("%s on device %d touches device memory %s%s", open_work, open_device, where,
                  array != NULL && !array_reached(array, open_device) ? " on another device" : "");
}

static void catch_faults(void)
{
    const struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGILL, &action, NULL); // raised by the compiler's checks of kernels (nvcc)
}

/* Background threads block all signals, but a fault with SIGSEGV blocked kills the process, so each
 * thread unblocks it before it does work. */
static void let_faults_through(void)
{
    sigset_t faults;
    sigemptyset(&faults);
    sigaddset(&faults, SIGSEGV);
    sigaddset(&faults, SIGILL);
    pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
}

static void reserve_space(void)
{
    space = mmap(NULL, MAX_GPUS * GPU_SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
    if (space == MAP_FAILED)
        stand_in_fail("no addresses left for device memory");
    catch_faults();
}

Array *array_new(int device, size_t bytes)
{
    if (space == NULL)
        reserve_space();
    const size_t aligned = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t page_bytes = (aligned + PAGE - 1) / PAGE * PAGE;
    if (num_arrays == MAX_ARRAYS || used_space[device] + page_bytes + 2 * PAGE > GPU_SPACE)
        stand_in_fail("too many arrays of device memory");
    char *pages = space + device * GPU_SPACE + used_space[device] + PAGE;
    used_space[device] += page_bytes + 2 * PAGE;
    Array *array = &arrays[num_arrays++];
    *array = (Array){ .begin = pages + page_bytes - aligned,
                      .pages = pages,
                      .bytes = bytes,
                      .page_bytes = page_bytes,
                      .device = device,
                      .opened_by = -1 };
    return array;
}

Array *array_at(const void *begin)
{
    for (int i = 0; i < num_arrays; i++)
        if (arrays[i].begin == begin && !arrays[i].freed)
            return &arrays[i];
    return NULL;
}

bool array_reached(const Array *array, int device)
{
    return array->device == device || array->opened_by == device;
}

void array_end(Array *array)
{
    if (mmap(array->pages, array->page_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        stand_in_fail("mmap failed");
    array->open = false;
    array->freed = true;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    if (stand_in_capturing())
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    const int device = stand_in_device();
    const size_t page_bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    *memory = NULL;
    if (bytes == 0)
        return cudaSuccess;
    if (bytes > stand_in_gpu_bytes() || used_bytes[device] + page_bytes > stand_in_gpu_bytes())
        return stand_in_error(cudaErrorMemoryAllocation);
    stand_in_count.allocations++;
    Array *array = array_new(device, bytes);
    used_bytes[device] += page_bytes;
    array_protect(array, PROT_READ | PROT_WRITE);
    memset(array->pages, NONSENSE, page_bytes);
    array_protect(array, PROT_NONE);
    *memory = array->begin;
    return cudaSuccess;
}

/* Dies if the bytes around the array have changed. */
static void check_margins(const Array *array, const char *work)
{
    const char *end = array->begin + array->bytes, *last = array->pages + array->page_bytes;
    for (const char *byte = array->pages; byte < last; byte++) {
        if (byte == array->begin)
            byte = end;
        if (byte < last && *byte != (char)NONSENSE)
            stand_in_fail("%s wrote to byte %ld of an array of %zu", work, byte - array->begin,
                          array->bytes);
    }
}

cudaError_t cudaFree(void *memory)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    if (stand_in_capturing())
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    if (memory == NULL)
        return cudaSuccess;
    Array *array = array_at(memory);
    if (array == NULL)
        return stand_in_error(cudaErrorInvalidValue);
    stand_in_finish_device(array->device); // like CUDA
    stand_in_unshare(array);
    used_bytes[array->device] -= array->page_bytes;
    array_end(array);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    LOCKED;
    const cudaError_t error = stand_in_open();
    *total = stand_in_gpu_bytes();
    *available = *total - used_bytes[stand_in_device()];
    return error;
}

void stand_in_memory_open(int device, const char *work)
{
    if (device != open_device) {
        stand_in_memory_close();
        catch_faults(); // again, because cmocka sets its own handlers
    }
    let_faults_through(); // each time, because another thread may have opened the device
    open_device = device;
    open_work = work;
}

void stand_in_memory_check(const char *work)
{
    for (int i = 0; i < num_arrays; i++)
        if (arrays[i].open)
            check_margins(&arrays[i], work);
}

void stand_in_memory_close(void)
{
    for (int i = 0; i < num_arrays; i++)
        if (arrays[i].open)
            array_protect(&arrays[i], PROT_NONE);
    open_device = -1;
    open_work = NULL;
}

static void pin(void *memory, size_t bytes, bool registered)
{
    Pinned *block = malloc(sizeof *block);
    *block = (Pinned){ pinned, memory, bytes, registered };
    pinned = block;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    if (stand_in_capturing())
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block == NULL)
        return stand_in_error(cudaErrorMemoryAllocation);
    stand_in_count.allocations++;
    *memory = memset(block, NONSENSE, bytes);
    pin(*memory, bytes, false);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMallocHost(memory, bytes);
}

static cudaError_t unpin(void *memory, bool registered)
{
    if (stand_in_capturing())
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    for (int device = 0; device < MAX_GPUS; device++)
        stand_in_finish_device(device);
    for (Pinned **at = &pinned; *at != NULL; at = &(*at)->next)
        if ((*at)->memory == memory && (*at)->registered == registered) {
            Pinned *block = *at;
            *at = block->next;
            free(block);
            return cudaSuccess;
        }
    return stand_in_error(cudaErrorInvalidValue);
}

cudaError_t cudaFreeHost(void *memory)
{
    LOCKED;
    const cudaError_t error = memory != NULL ? unpin(memory, false) : cudaSuccess;
    if (error == cudaSuccess)
        free(memory);
    return error;
}

/* Pins memory of the program, possibly shared with another process. */
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
    (void)flags;
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    const MemoryRange range = stand_in_memory(memory);
    if (range.kind == MEMORY_PINNED)
        return stand_in_error(cudaErrorHostMemoryAlreadyRegistered);
    if (bytes == 0 || range.kind == MEMORY_DEVICE)
        return stand_in_error(cudaErrorInvalidValue);
    pin(memory, bytes, true);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *memory)
{
    LOCKED;
    return unpin(memory, true);
}

MemoryRange stand_in_memory(const void *address)
{
    const char *byte = address;
    for (int i = 0; i < num_arrays; i++)
        if (!arrays[i].freed && byte >= arrays[i].begin && byte < arrays[i].begin + arrays[i].bytes)
            return (MemoryRange){ MEMORY_DEVICE, arrays[i].device, arrays[i].opened_by,
                                  arrays[i].begin, arrays[i].bytes };
    for (const Pinned *block = pinned; block != NULL; block = block->next)
        if (byte >= block->memory && byte < block->memory + block->bytes)
            return (MemoryRange){ MEMORY_PINNED, 0, -1, block->memory, block->bytes };
    return (MemoryRange){ .kind = MEMORY_PAGEABLE };
}

void stand_in_check_range(const char *what, int device, const void *address, size_t bytes)
{
    const MemoryRange range = stand_in_memory(address);
    if (bytes == 0)
        return;
    if (range.kind != MEMORY_DEVICE)
        stand_in_fail("%s: %p is no device memory", what, address);
    if (range.device != device && range.opened_by != device)
        stand_in_fail("%s on device %d: memory of device %d", what, device, range.device);
    const size_t from = (size_t)((const char *)address - range.begin);
    if (bytes > range.bytes - from)
        stand_in_fail("%s: bytes %zu to %zu of an array of %zu", what, from, from + bytes,
                      range.bytes);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    LOCKED;
    const MemoryRange range = stand_in_memory(memory);
    *attributes = (struct cudaPointerAttributes){ .device = range.device };
    if (range.kind == MEMORY_DEVICE) {
        attributes->type = cudaMemoryTypeDevice;
        attributes->devicePointer = (void *)memory;
    } else {
        attributes->type =
            range.kind == MEMORY_PINNED ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
        attributes->hostPointer = (void *)memory;
    }
    return stand_in_open();
}
