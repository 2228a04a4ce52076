/* arrays.h - arrays of device memory, shared by memory.c and ipc.c. */
#ifndef TESTS_CUDA_STAND_IN_ARRAYS_H
#define TESTS_CUDA_STAND_IN_ARRAYS_H

#include "stand_in.h"

enum { PAGE = 4096 };

typedef struct {
    char *begin, *pages; // the array; its first page
    size_t bytes, page_bytes;
    int device;
    bool open, freed;
    struct Shared *shared; // state shared with other processes (NULL if never shared)
    int shared_fd;
    int opened_by; // for another process's array, this process's GPU with access (else -1)
} Array;

/* Reserves addresses for an array's pages, without access yet. */
Array *array_new(int device, size_t bytes);
Array *array_at(const void *begin); // NULL if none begins there
bool array_reached(const Array *array, int device); // true if the GPU may access it
void array_protect(Array *array, int access);
void array_end(Array *array); // its addresses are never used again

/* ipc.c: called before an array is freed. Dies if another process has it open. */
void stand_in_unshare(Array *array);

#endif
