/* arrays.h - arrays of device memory: what memory.c and ipc.c share. */
#ifndef TESTS_CUDA_STAND_IN_ARRAYS_H
#define TESTS_CUDA_STAND_IN_ARRAYS_H

#include "stand_in.h"

enum { PAGE = 4096 };

typedef struct {
    char *begin, *pages; // the array; its first page
    size_t bytes, page_bytes;
    int device;
    bool open, freed;
    struct Shared *shared; // with other processes; NULL: it never was
    int shared_fd;
    int opened_by; // of another process: this process's GPU that may touch it, too; -1: not such
} Array;

/* Places for an array's pages, which nobody may touch yet. */
Array *array_new(int device, size_t bytes);
Array *array_at(const void *begin); // NULL: none begins there
bool array_reached(const Array *array, int device); // may the GPU touch it?
void array_protect(Array *array, int access);
void array_end(Array *array); // its addresses are never used again

/* ipc.c: before an array is freed. Dies if another process has it open. */
void stand_in_unshare(Array *array);

#endif
