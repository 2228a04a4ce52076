/* tensor.h - a named, shaped slice of a flat array of floats; and the element types of the rest. */
#ifndef COMMON_BASE_TENSOR_H
#define COMMON_BASE_TENSOR_H

#include <stddef.h>

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
