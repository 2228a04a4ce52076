/*
 * A safetensors file in memory: a list of named tensors and a table of strings.
 *
 * safetensors_open fills it (safetensors_read.c), or the functions here do piece by piece, and
 * safetensors_commit writes it (safetensors_write.c).
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/save/safetensors_file.h"

const char *const safetensors_dtype[NUM_DTYPES] = {
    [FLOAT32] = "F32", [BFLOAT16] = "BF16", [FLOAT64] = "F64",
    [INT32] = "I32",   [INT64] = "I64",     [UINT8] = "U8",
};

const char *safetensors_metadata(const Safetensors *file, const char *key)
{
    return json_string_value(json_object_get(file->metadata, key));
}

int safetensors_num_tensors(const Safetensors *file)
{
    return file->num_entries;
}

const char *safetensors_name(const Safetensors *file, int i)
{
    return file->entry[i].name;
}

const void *safetensors_find(const Safetensors *file, const char *name, DType *type, int *ndim,
                             const size_t **shape)
{
    for (int i = 0; i < file->num_entries; i++) {
        const Entry *entry = &file->entry[i];
        if (strcmp(entry->name, name) == 0) {
            *type = entry->type;
            *ndim = entry->ndim;
            *shape = entry->shape;
            return entry->data;
        }
    }
    return NULL;
}

Safetensors *safetensors_create(void)
{
    Safetensors *file = mem_calloc(1, sizeof *file);
    file->metadata = json_object();
    CHECK(file->metadata != NULL, "out of memory");
    return file;
}

/* Inserts an entry after those of the same or a larger element size: in this order every tensor is
 * aligned to its element size without padding, which the format forbids. */
static Entry *insert(Safetensors *file, DType type)
{
    const size_t bytes = (size_t)(file->num_entries + 1) * sizeof(Entry);
    file->entry = realloc(file->entry, bytes);
    CHECK(file->entry != NULL, "out of memory: %zu bytes wanted", bytes);

    int at = file->num_entries++;
    for (; at > 0 && dtype_size(file->entry[at - 1].type) < dtype_size(type); at--)
        file->entry[at] = file->entry[at - 1];
    return &file->entry[at];
}

void safetensors_add(Safetensors *file, const char *name, DType type, int ndim, const size_t *shape,
                     const void *data)
{
    DType other_type;
    int other_ndim;
    const size_t *other_shape;
    CHECK(safetensors_find(file, name, &other_type, &other_ndim, &other_shape) == NULL &&
              strcmp(name, "__metadata__") != 0,
          "safetensors: the name \"%s\" is taken", name);

    Entry entry = {
        .name = strdup(name), .type = type, .ndim = ndim, .data = data, .bytes = dtype_size(type)
    };
    CHECK(entry.name != NULL, "out of memory");
    entry.shape = mem_calloc((size_t)ndim, sizeof *shape);
    for (int i = 0; i < ndim; i++) {
        entry.shape[i] = shape[i];
        entry.bytes *= shape[i];
    }
    *insert(file, type) = entry;
}

void safetensors_add_metadata(Safetensors *file, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    json_t *value = json_vsprintf(format, args); // NULL if it is not UTF-8
    va_end(args);
    CHECK(json_object_set_new(file->metadata, key, value) == 0,
          "safetensors: metadata \"%s\" is not UTF-8", key);
}

uint32_t safetensors_checksum(const Safetensors *file)
{
    uLong crc = crc32_z(0, NULL, 0);
    for (int i = 0; i < file->num_entries; i++) {
        const Entry *entry = &file->entry[i];
        crc = crc32_z(crc, (const Bytef *)entry->name, strlen(entry->name));
        crc = crc32_z(crc, entry->data, entry->bytes);
    }
    return (uint32_t)crc;
}

uint32_t safetensors_metadata_checksum(const Safetensors *file, const char *except)
{
    json_t *rest = json_copy(file->metadata);
    json_object_del(rest, except);
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(text != NULL, "out of memory");
    const uLong crc = crc32_z(crc32_z(0, NULL, 0), (const Bytef *)text, strlen(text));
    free(text);
    json_decref(rest);
    return (uint32_t)crc;
}

void safetensors_free(Safetensors *file)
{
    for (int i = 0; i < file->num_entries; i++) {
        free(file->entry[i].name);
        free(file->entry[i].shape);
    }
    free(file->entry);
    free(file->data);
    json_decref(file->metadata);
    free(file);
}
