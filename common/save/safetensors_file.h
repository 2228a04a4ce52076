/* safetensors_file.h - a safetensors file in memory; private to the files safetensors*.c. */
#ifndef COMMON_SAVE_SAFETENSORS_FILE_H
#define COMMON_SAVE_SAFETENSORS_FILE_H

#include <jansson.h>

#include "common/save/safetensors.h"

/* Owns its name and shape. */
typedef struct {
    char *name;
    DType type;
    int ndim;
    size_t *shape; // [ndim]
    const uint8_t *data; // [bytes], aligned to 64 if it was read
    size_t bytes;
    size_t begin; // reading: where in the file's data
    int place; // reading: where in the header
} Entry;

struct Safetensors {
    json_t *metadata; // an object of strings
    Entry *entry; // in the order of the file's data
    int num_entries;
    uint8_t *data; // reading: that of all entries
};

extern const char *const safetensors_dtype[NUM_DTYPES]; // the format's names: "F32"

#endif
