/* place.h - where memory lies: in the host, or in a GPU whose work is queued on a stream. */
#ifndef COMMON_BASE_PLACE_H
#define COMMON_BASE_PLACE_H

#include <stdbool.h>

typedef struct {
    bool on_gpu;
    int index; // which GPU
    void *stream; // cudaStream_t on which the GPU computes; NULL on the host
    // True while the GPU repeats a recorded training step (--cuda-graph), whose collectives are
    // part of the recording: a call that starts one then queues nothing. NULL on the host.
    const bool *replaying;
} Place;

#endif
