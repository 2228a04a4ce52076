/* The element types, by PyTorch's names. */
#include "common/base/tensor.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[NUM_DTYPES] = {
    [FLOAT32] = { "float32", 4 }, [BFLOAT16] = { "bfloat16", 2 }, [FLOAT64] = { "float64", 8 },
    [INT32] = { "int32", 4 },     [INT64] = { "int64", 8 },       [UINT8] = { "uint8", 1 },
};

size_t dtype_size(DType type)
{
    return dtypes[type].size;
}

const char *dtype_name(DType type)
{
    return dtypes[type].name;
}
