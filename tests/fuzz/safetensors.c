/* A safetensors file as it is; one that is accepted can be copied. */
#include "common/save/safetensors.h"

#include <string.h>

#include "tests/fuzz/targets.h"

/* The tensors of a file, and the same once more where they have been added to another. */
static void compare(const Safetensors *file, Safetensors *other, bool added)
{
    for (int i = 0; i < safetensors_num_tensors(file); i++) {
        DType type, type_again;
        int ndim, ndim_again;
        const size_t *shape, *shape_again;
        const char *name = safetensors_name(file, i);
        const void *data = safetensors_find(file, name, &type, &ndim, &shape);
        EXPECT(data != NULL && ndim >= 0 && type < NUM_DTYPES);
        if (!added) {
            safetensors_add(other, name, type, ndim, shape, data);
            continue;
        }
        const void *again = safetensors_find(other, name, &type_again, &ndim_again, &shape_again);
        size_t bytes = dtype_size(type);
        for (int d = 0; d < ndim; d++)
            bytes *= shape[d];
        EXPECT(again != NULL && type_again == type && ndim_again == ndim);
        EXPECT(memcmp(again, data, bytes) == 0);
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
    EXPECT(safetensors_num_tensors(other) == safetensors_num_tensors(file));
    safetensors_free(other);
    safetensors_free(file);
}
