/*
 * Device memory that another process opens (CUDA IPC), and whether one GPU can access another's
 * memory. A shared array moves to a memory file and keeps its address; the handle identifies the
 * file and its process.
 *
 * A process that shares memory gets ahead of the other, or behind, by a random time at each piece
 * of work and at each barrier of a block, so that missing synchronization is detected. With
 * CUDA_STAND_IN_PEERS=0 no GPU can access another.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arrays.h"

enum { MAGIC = 0x1bc, MOST_MICROSECONDS = 3000 };

/* The first page of the file; the array's pages follow. */
typedef struct Shared {
    int magic;
    int gpu; // the machine's number of the GPU
    size_t bytes;
    atomic_int opened; // number of processes that have opened it
} Shared;

typedef struct {
    pid_t owner;
    int fd;
} Ticket;

static bool is_sharing; // true if this process shares memory

void stand_in_drift(void)
{
    if (is_sharing && stand_in_random(4) == 0)
        usleep(stand_in_random(MOST_MICROSECONDS));
}

static bool have_peers(void)
{
    const char *text = getenv("CUDA_STAND_IN_PEERS");
    return text == NULL || strcmp(text, "0") != 0;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    LOCKED;
    if (stand_in_find() != cudaSuccess)
        return cudaPeekAtLastError();
    if (stand_in_gpu(device) < 0 || stand_in_gpu(peer) < 0)
        return stand_in_error(cudaErrorInvalidDevice);
    *can = device != peer && have_peers();
    return cudaSuccess;
}

static Shared *map_first_page(int fd)
{
    Shared *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        stand_in_fail("mmap of shared device memory failed");
    return shared;
}

static void map_pages(Array *array)
{
    if (mmap(array->pages, array->page_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, array->shared_fd,
             PAGE) == MAP_FAILED)
        stand_in_fail("mmap of shared device memory failed");
    array->open = false;
    is_sharing = true;
}

static void share(Array *array)
{
    const int fd = memfd_create("device memory", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)(PAGE + array->page_bytes)) != 0)
        stand_in_fail("no memory file for an array of %zu bytes", array->bytes);
    array_protect(array, PROT_READ);
    for (size_t done = 0; done < array->page_bytes;) {
        const ssize_t wrote =
            pwrite(fd, array->pages + done, array->page_bytes - done, (off_t)(PAGE + done));
        if (wrote <= 0)
            stand_in_fail("no memory file for an array of %zu bytes", array->bytes);
        done += (size_t)wrote;
    }
    array->shared_fd = fd;
    array->shared = map_first_page(fd);
    *array->shared =
        (Shared){ .magic = MAGIC, .gpu = stand_in_gpu(array->device), .bytes = array->bytes };
    map_pages(array);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    Array *array = array_at(memory);
    if (array == NULL || array->opened_by >= 0)
        return stand_in_error(cudaErrorInvalidValue);
    if (array->shared == NULL)
        share(array);
    *handle = (cudaIpcMemHandle_t){ { 0 } };
    memcpy(handle->reserved, &(Ticket){ getpid(), array->shared_fd }, sizeof(Ticket));
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle, unsigned flags)
{
    LOCKED;
    if (stand_in_open() != cudaSuccess)
        return cudaPeekAtLastError();
    Ticket ticket;
    memcpy(&ticket, handle.reserved, sizeof ticket);
    if (ticket.owner == getpid())
        stand_in_fail("cudaIpcOpenMemHandle: the memory is this process's own");
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)ticket.owner, ticket.fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    Shared *shared = fd >= 0 && lseek(fd, 0, SEEK_END) > PAGE ? map_first_page(fd) : NULL;
    if (flags != cudaIpcMemLazyEnablePeerAccess || shared == NULL || shared->magic != MAGIC)
        return stand_in_error(cudaErrorInvalidValue);
    int device = 0;
    while (device < MAX_GPUS && stand_in_gpu(device) != shared->gpu)
        device++;
    if (device == MAX_GPUS) // the GPU is not visible to this process
        return stand_in_error(cudaErrorInvalidDevice);
    if (device != stand_in_device() && !have_peers())
        return stand_in_error(cudaErrorPeerAccessUnsupported);
    Array *array = array_new(device, shared->bytes);
    array->shared = shared;
    array->shared_fd = fd;
    array->opened_by = stand_in_device();
    map_pages(array);
    shared->opened++;
    *memory = array->begin;
    return cudaSuccess;
}

static void release(Array *array)
{
    munmap(array->shared, PAGE);
    close(array->shared_fd);
    array->shared = NULL;
}

cudaError_t cudaIpcCloseMemHandle(void *memory)
{
    LOCKED;
    Array *array = array_at(memory);
    if (array == NULL || array->opened_by < 0)
        return stand_in_error(cudaErrorInvalidValue);
    stand_in_finish_device(array->opened_by);
    array->shared->opened--;
    release(array);
    array_end(array);
    return cudaSuccess;
}

void stand_in_unshare(Array *array)
{
    if (array->opened_by >= 0)
        stand_in_fail("cudaFree: memory of another process, which cudaIpcCloseMemHandle closes");
    if (array->shared != NULL && array->shared->opened > 0)
        stand_in_fail("cudaFree: an array of %zu bytes that another process has open",
                      array->bytes);
    if (array->shared != NULL)
        release(array);
}
