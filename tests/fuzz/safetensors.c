/* A safetensors file as it is; one that is accepted can be copied. */
#include "common/save/safetensors.h"

#include <string.h>

#include "tests/fuzz/targets.h"

/* The tensors of a file, and the same once more where they have been added to another. */
static void compare(const Safetensors *file, Safetensors *other, bool added)
{
    for (int i = 0; i < file->num_tensors; i++) {
        const StoredTensor *tensor = safetensors_find(file, file->tensor[i].name);
        EXPECT(tensor == &file->tensor[i] && tensor->data != NULL && tensor->ndim >= 0 &&
               tensor->type < NUM_DTYPES);
        if (!added) {
            safetensors_add(other, tensor->name, tensor->type, tensor->ndim, tensor->shape,
                            tensor->data);
            continue;
        }
        const StoredTensor *again = safetensors_find(other, tensor->name);
        size_t bytes = dtype_size(tensor->type);
        for (int d = 0; d < tensor->ndim; d++)
            bytes *= tensor->shape[d];
        EXPECT(again != NULL && again->type == tensor->type && again->ndim == tensor->ndim);
        EXPECT(memcmp(again->data, tensor->data, bytes) == 0);
    }
}

void fuzz_safetensors(Input input)
{
    char error[256] = "";
    Safetensors *file = safetensors_open(world_file(input.data, input.size), error, sizeof error);
    EXPECT((file == NULL) == (error[0] != '\0') && strchr(error, '\n') == NULL);
    if (file == NULL)
        return;
    const char *format = safetensors_metadata(file, "format");
    EXPECT(format == NULL || strlen(format) < input.size);

    Safetensors *other = safetensors_create();
    compare(file, other, false);
    compare(file, other, true);
    EXPECT(other->num_tensors == file->num_tensors);
    safetensors_free(other);
    safetensors_free(file);
}
