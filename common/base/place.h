/* place.h - where memory lies: in the host, or in a GPU whose work is queued on a stream. */
#ifndef COMMON_BASE_PLACE_H
#define COMMON_BASE_PLACE_H

#include <stdbool.h>

typedef struct {
    bool on_gpu;
    int index; // which GPU
    void *stream; // cudaStream_t on which the GPU computes; NULL on the host
} Place;

#endif
