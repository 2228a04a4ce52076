/* A safetensors file; one that is accepted can be copied. */
#include "common/save/safetensors.h"

#include <string.h>

#include "tests/fuzz/targets.h"

/* Returns true if this program may have written the tensor. */
static bool is_ours(const StoredTensor *tensor)
{
    return tensor->type < NUM_DTYPES && tensor->ndim <= SAFETENSORS_MAX_DIMS;
}

/* Adds the tensors of a file to another, those with larger elements first. */
static void add_all(const Safetensors *file, Safetensors *other)
{
    for (size_t size = 8; size > 0; size--)
        for (int i = 0; i < file->num_tensors; i++) {
            const StoredTensor *tensor = safetensors_find(file, file->tensor[i].name);
            EXPECT(tensor == &file->tensor[i] && tensor->data != NULL && tensor->ndim >= 0);
            if (is_ours(tensor) && dtype_size(tensor->type) == size)
                safetensors_add(other, tensor->name, tensor->type, tensor->ndim, tensor->shape,
                                tensor->data);
        }
}

static void compare(const Safetensors *file, const Safetensors *other)
{
    int count = 0;
    for (int i = 0; i < file->num_tensors; i++) {
        const StoredTensor *tensor = &file->tensor[i];
        const StoredTensor *again = safetensors_find(other, tensor->name);
        count += is_ours(tensor);
        EXPECT(is_ours(tensor) == (again != NULL));
        if (again == NULL)
            continue;
        size_t bytes = dtype_size(tensor->type);
        for (int d = 0; d < tensor->ndim; d++)
            bytes *= tensor->shape[d];
        EXPECT(again->type == tensor->type && again->ndim == tensor->ndim);
        EXPECT((uintptr_t)tensor->data % dtype_size(tensor->type) == 0);
        EXPECT(memcmp(again->data, tensor->data, bytes) == 0);
    }
    EXPECT(other->num_tensors == count);
}

void fuzz_safetensors(Input input)
{
    Safetensors file, other;
    const bool ok = safetensors_open(&file, world_file(input.data, input.size), WITH_DATA);
    EXPECT(ok == (file.error[0] == '\0') && strchr(file.error, '\n') == NULL);
    if (ok) {
        const char *format = safetensors_metadata(&file, "format");
        EXPECT(format == NULL || strlen(format) < input.size);
        safetensors_create(&other, "other");
        add_all(&file, &other);
        compare(&file, &other);
        safetensors_free(&other);
    }
    safetensors_free(&file);
}
