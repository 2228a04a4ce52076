/*
 * Device memory: pages that nobody may touch. A kernel that does so all the same faults, and the
 * array is opened to it if it is the device's, until its work is done. Each array ends where its
 * last page does, as nearly as its alignment permits, and a page without access lies on each side;
 * what is left of its pages is filled with a pattern. Addresses are never used twice.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stand_in.h"

#define GPU_SPACE ((size_t)128 << 30) // of addresses, which are used up

enum { ALIGNMENT = 256, PAGE = 4096, MAX_ARRAYS = 1 << 16, NONSENSE = 0xff };

typedef struct {
    char *begin, *pages; // the array; its first page
    size_t bytes, page_bytes;
    int device;
    bool open, freed;
} Array;

static Array arrays[MAX_ARRAYS]; // in the order of their addresses within each GPU
static int num_arrays;
static char *space; // of all GPUs
static size_t used_space[MAX_GPUS], used_bytes[MAX_GPUS];
static int open_device = -1;
static const char *open_work;

typedef struct Pinned {
    struct Pinned *next;
    size_t bytes;
    _Alignas(64) char memory[];
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

static void protect(Array *array, int access)
{
    if (mprotect(array->pages, array->page_bytes, access) != 0)
        stand_in_fail("mprotect of an array of %zu bytes failed", array->bytes);
    array->open = access != PROT_NONE;
}

/* Opens an array, or names the one who touches what he must not: the host, or a kernel. */
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    const char *address = info->si_addr;
    if (signal_number == SIGILL && open_work != NULL)
        stand_in_fail("%s: a vector that is not aligned, or an index out of its range", open_work);
    if (space == NULL || address < space || address >= space + MAX_GPUS * GPU_SPACE) {
        signal(signal_number, SIG_DFL); // a fault like any other: it happens again
        return;
    }
    Array *array = find_array(address);
    const bool inside =
        array != NULL && address >= array->pages && address < array->pages + array->page_bytes;
    if (open_work != NULL && inside && !array->freed && array->device == open_device) {
        protect(array, PROT_READ | PROT_WRITE);
        return;
    }
    char where[128] = "where no array is or was";
    if (array != NULL)
        snprintf(where, sizeof where, "at byte %ld of an array of %zu%s", address - array->begin,
                 array->bytes, array->freed ? ", which was freed" : "");
    if (open_work == NULL)
        stand_in_fail("the host touches device memory %s", where);
    stand_in_fail("%s on device %d touches device memory %s%s", open_work, open_device, where,
                  array != NULL && array->device != open_device ? " on another device" : "");
}

static void catch_faults(void)
{
    const struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGILL, &action, NULL); // what the compiler's checks of kernels end in (nvcc)
}

/* Background threads block all signals, and a fault kills a thread that blocks SIGSEGV: so each
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

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    if (stand_in_capturing())
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    if (space == NULL)
        reserve_space();
    const int device = stand_in_device();
    const size_t aligned = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t page_bytes = (aligned + PAGE - 1) / PAGE * PAGE;
    *memory = NULL;
    if (bytes == 0)
        return cudaSuccess;
    if (bytes > stand_in_gpu_bytes() || used_bytes[device] + page_bytes > stand_in_gpu_bytes())
        return stand_in_error(cudaErrorMemoryAllocation);
    if (num_arrays == MAX_ARRAYS || used_space[device] + page_bytes + 2 * PAGE > GPU_SPACE)
        stand_in_fail("too many arrays of device memory");

    stand_in_count.allocations++;
    Array *array = &arrays[num_arrays++];
    char *pages = space + device * GPU_SPACE + used_space[device] + PAGE;
    *array =
        (Array){ pages + page_bytes - aligned, pages, bytes, page_bytes, device, false, false };
    used_space[device] += page_bytes + 2 * PAGE;
    used_bytes[device] += page_bytes;
    protect(array, PROT_READ | PROT_WRITE);
    memset(pages, NONSENSE, page_bytes);
    protect(array, PROT_NONE);
    *memory = array->begin;
    return cudaSuccess;
}

/* Is what surrounds the array as it was? */
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
    Array *array = NULL;
    for (int i = 0; i < num_arrays; i++)
        if (arrays[i].begin == memory && !arrays[i].freed)
            array = &arrays[i];
    if (array == NULL)
        return stand_in_error(cudaErrorInvalidValue);
    stand_in_finish_device(array->device); // as CUDA does
    if (mmap(array->pages, array->page_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        stand_in_fail("mmap failed");
    used_bytes[array->device] -= array->page_bytes;
    array->open = false;
    array->freed = true;
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
        catch_faults(); // cmocka does so, too
    }
    let_faults_through(); // each time: another thread may have opened the device
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
            protect(&arrays[i], PROT_NONE);
    open_device = -1;
    open_work = NULL;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    if (stand_in_capturing())
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    Pinned *block = aligned_alloc(64, (sizeof *block + bytes + 63) / 64 * 64);
    if (block == NULL)
        return stand_in_error(cudaErrorMemoryAllocation);
    *block = (Pinned){ pinned, bytes };
    stand_in_count.allocations++;
    memset(block->memory, NONSENSE, bytes);
    pinned = block;
    *memory = block->memory;
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return cudaMallocHost(memory, bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
    LOCKED;
    if (memory == NULL)
        return cudaSuccess;
    if (stand_in_capturing())
        return stand_in_error(cudaErrorStreamCaptureUnsupported);
    for (int device = 0; device < MAX_GPUS; device++)
        stand_in_finish_device(device);
    for (Pinned **at = &pinned; *at != NULL; at = &(*at)->next)
        if ((*at)->memory == memory) {
            Pinned *block = *at;
            *at = block->next;
            free(block);
            return cudaSuccess;
        }
    return stand_in_error(cudaErrorInvalidValue);
}

MemoryRange stand_in_memory(const void *address)
{
    const char *byte = address;
    for (int i = 0; i < num_arrays; i++)
        if (!arrays[i].freed && byte >= arrays[i].begin && byte < arrays[i].begin + arrays[i].bytes)
            return (MemoryRange){ MEMORY_DEVICE, arrays[i].device, arrays[i].begin,
                                  arrays[i].bytes };
    for (const Pinned *block = pinned; block != NULL; block = block->next)
        if (byte >= block->memory && byte < block->memory + block->bytes)
            return (MemoryRange){ MEMORY_PINNED, 0, block->memory, block->bytes };
    return (MemoryRange){ .kind = MEMORY_PAGEABLE };
}

void stand_in_check_range(const char *what, int device, const void *address, size_t bytes)
{
    const MemoryRange range = stand_in_memory(address);
    if (bytes == 0)
        return;
    if (range.kind != MEMORY_DEVICE)
        stand_in_fail("%s: %p is no device memory", what, address);
    if (range.device != device)
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
