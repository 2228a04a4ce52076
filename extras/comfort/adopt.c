/*
 * Weights saved by other programs: PyTorch's wrappers (DDP, FSDP, torch.compile, Lightning) add
 * parts to the names, in any order, and many files have half precision.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/save/checkpoint.h"

#define reject(...) file_reject(file, __VA_ARGS__)

/* Returns the value of an element: F64, BF16 (the upper half of a float), or else F16. */
static float value_of(DType type, const void *element)
{
    double wide;
    float value;
    uint16_t half;
    if (type == FLOAT64)
        return (float)*(double *)memcpy(&wide, element, sizeof wide);
    memcpy(&half, element, sizeof half);
    if (type == BFLOAT16)
        return *(float *)memcpy(&value, &(uint32_t){ (uint32_t)half << 16 }, sizeof value);
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31)
        value = fraction == 0 ? INFINITY : NAN;
    else // the smallest numbers have no leading 1
        value = ldexpf((float)(exponent > 0 ? 1024 + fraction : fraction),
                       (exponent > 0 ? exponent : 1) - 25);
    return half >> 15 ? -value : value;
}

/* Returns false if the type is one that is not converted. */
static bool to_float32(StoredTensor *tensor)
{
    const bool is_half = tensor->type == BFLOAT16 || strcmp(tensor->dtype, "F16") == 0;
    if (!is_half && tensor->type != FLOAT64)
        return false;
    const size_t size = is_half ? 2 : 8, numel = tensor->bytes / size;
    float *values = mem_alloc(numel, sizeof *values);
    for (size_t i = 0; i < numel; i++)
        values[i] = value_of(tensor->type, (const uint8_t *)tensor->data + i * size);
    free(tensor->own);
    tensor->data = tensor->own = values;
    tensor->type = FLOAT32;
    tensor->bytes = numel * sizeof *values;
    return true;
}

/* Returns true for `name` plus parts that wrappers add, as "module._orig_mod.fc1.weight". */
static bool is_wrapped(const char *stored, const char *name)
{
    static const char wrappers[] = " module. model. _orig_mod. _forward_module. "
                                   "_fsdp_wrapped_module. _checkpoint_wrapped_module. ";
    while (strcmp(stored, name) != 0) {
        char part[64];
        const size_t bytes = strcspn(stored, ".") + 1; // including the point
        snprintf(part, sizeof part, " %.*s ", (int)bytes, stored);
        if (strncmp(stored, name, bytes) == 0)
            name += bytes;
        else if (strstr(wrappers, part) == NULL)
            return false;
        stored += bytes;
    }
    return true;
}

/* Gives the name itself to the only wrapped tensor that has it; sets *wrapped to what the first
 * such tensor was called. Returns false if there are two. */
static bool unwrap(Safetensors *file, const char *name, const char **wrapped)
{
    StoredTensor *found = NULL;
    if (safetensors_find(file, name) != NULL)
        return true;
    for (int i = 0; i < file->num_tensors; i++) {
        StoredTensor *tensor = &file->tensor[i];
        if (!is_wrapped(tensor->name, name))
            continue;
        if (found != NULL)
            return reject("has \"%.80s\" and \"%.80s\": rename the one that shall be \"%s\"",
                          found->name, tensor->name, name);
        found = tensor;
    }
    if (found == NULL)
        return true;
    *wrapped = *wrapped == NULL ? found->name : *wrapped;
    found->name = name;
    return true;
}

/* Returns the tensor name whose end is most like that of the missing name: perhaps it is meant. */
static const char *nearest_name(const Safetensors *file, const char *name)
{
    size_t longest = 0;
    const char *nearest = file->num_tensors > 0 ? file->tensor[0].name : "nothing";
    for (int i = 0; i < file->num_tensors; i++) {
        const char *other = file->tensor[i].name;
        const size_t bytes = strlen(name), of_other = strlen(other);
        size_t same = 0;
        while (same < bytes && same < of_other &&
               name[bytes - same - 1] == other[of_other - same - 1])
            same++;
        if (same > longest) {
            longest = same;
            nearest = other;
        }
    }
    return nearest;
}

bool adopt_weights(Safetensors *file, const Model *model)
{
    const char *wrapped = NULL, *dtype = NULL;
    for (int i = 0; i < model->num_parameters; i++) {
        const char *name = model->parameter[i].name;
        if (!unwrap(file, name, &wrapped))
            return false;
        StoredTensor *tensor = (StoredTensor *)safetensors_find(file, name);
        if (tensor == NULL)
            return reject("has no tensor \"%s\", which model %s needs; it has \"%.80s\"", name,
                          model->name, nearest_name(file, name));
        if (to_float32(tensor) && dtype == NULL)
            dtype = tensor->dtype;
        if (checkpoint_tensor(file, name, model, i) == NULL)
            return false;
    }
    if (wrapped != NULL && log_prints_for_job())
        log_info("%s: names are those of a wrapper (\"%.80s\"); taken without it", file->path,
                 wrapped);
    if (dtype != NULL && log_prints_for_job())
        log_info("%s: weights are %s, converted to float32", file->path, dtype);
    return true;
}
