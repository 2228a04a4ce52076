/* memory.h - flat arrays: how they are allocated, where they are, and their elements' type. */
#ifndef COMMON_BASE_MEMORY_H
#define COMMON_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Allocates count elements of size bytes each, aligned to 64 bytes. Dies if there is not enough
 * memory or the product overflows. Free it with free(). mem_calloc zeroes it. */
void *mem_alloc(size_t count, size_t size);
void *mem_calloc(size_t count, size_t size);

/* Returns whether the machine has this many bytes of unused memory, swap included. If not,
 * *available is how many it has, less a sixteenth of all. malloc does not report it: the kernel
 * promises more than it has, and kills the process that uses it. True below 64 MiB, unchecked. */
bool mem_fits(size_t bytes, size_t *available);

/* Where memory lies: in the host, or in a GPU whose work is queued on a stream. */
typedef struct {
    bool on_gpu;
    int index; // the GPU's number
    void *stream; // cudaStream_t on which the GPU computes; NULL on the host
    // For a recorded training step (--cuda-graph), collectives included. NULL on the host.
    const bool *replaying; // true while it is repeated: starting a collective then queues nothing
    void (*drop_graph)(const bool *replaying); // frees the graph, before NCCL's communicator
} MemoryLocation;

/* Parameters, gradients and optimizer states are flat arrays. A Tensor is the slice of one
 * parameter, the same in all of them. */
typedef struct {
    const char *name; // PyTorch's: "conv1.weight"
    size_t shape[4];
    int ndim;
    size_t offset, numel; // its slice, in elements
} Tensor;

typedef enum { FLOAT32, BFLOAT16, FLOAT64, INT32, INT64, UINT8, NUM_DTYPES } DType;

size_t dtype_size(DType type); // bytes of an element
const char *dtype_name(DType type); // "float32"

#endif
