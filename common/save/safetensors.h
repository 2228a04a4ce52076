/*
 * safetensors.h - reads and writes the safetensors format, and nothing else.
 *
 * A file is 8 bytes of little-endian header length, a JSON header (name -> dtype, shape,
 * data_offsets; "__metadata__" -> strings), then the tensors' bytes. Source: the format section of
 * the safetensors README (huggingface/safetensors).
 */
#ifndef COMMON_SAVE_SAFETENSORS_H
#define COMMON_SAVE_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/memory.h"

/* A tensor of a file. Owns its name and shape. */
typedef struct {
    char *name;
    DType type;
    int ndim;
    size_t *shape; // [ndim]
    const void *data; // [bytes], aligned to 64 if it was read; borrowed if it is to be written
    size_t bytes;
    size_t begin; // where in the file's data, and
    int header_index; // where in the header: while a file is read
} StoredTensor;

/* A file to read, or to write, in memory. */
typedef struct {
    struct json_t *metadata; // an object of strings
    StoredTensor *tensor; // [num_tensors], in the order of the file's data
    int num_tensors;
    uint8_t *data; // of all tensors, if they were read
} Safetensors;

/* Reading. Errors do not end the process, except lack of memory: NULL, and one line in error (what
 * is wrong and where in the file). Everything is checked before it is used: lengths, JSON, types,
 * shapes against sizes, overlapping or missing ranges, duplicate names. A header of more than 1 MiB
 * is refused (the format allows 100 MB, which would take gigabytes as JSON). */
Safetensors *safetensors_open(const char *path, char *error, size_t error_bytes);
/* The same without the data: names, types, shapes and metadata. */
Safetensors *safetensors_peek(const char *path, char *error, size_t error_bytes);
/* By name; NULL if there is none. */
const StoredTensor *safetensors_find(const Safetensors *file, const char *name);
const char *safetensors_metadata(const Safetensors *file, const char *key);

/* Writing: add everything, then commit. Data is borrowed until safetensors_free. Names and metadata
 * are escaped as JSON. */
Safetensors *safetensors_create(void);
void safetensors_add(Safetensors *file, const char *name, DType type, int ndim, const size_t *shape,
                     const void *data);
void safetensors_add_metadata(Safetensors *file, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes a temporary file, fsyncs it, renames it over path and fsyncs the folder: path has the old
 * or the new file, never a mixture. The temporary file is created anew, and neither a file nor a
 * link of its name (PATH.PID.tmp) is written through. False and one line in error on failure; the
 * temporary file is removed then, but if the folder's fsync fails the new file is in place. */
bool safetensors_commit(const Safetensors *file, const char *path, char *error, size_t error_bytes);

void safetensors_free(Safetensors *file); // or NULL

/* CRC-32 over the tensors in the order of the file: name, then data. */
uint32_t safetensors_checksum(const Safetensors *file);
/* CRC-32 over all metadata except one key, as JSON with sorted keys. */
uint32_t safetensors_metadata_checksum(const Safetensors *file, const char *except);

/* The format's names of the types: "F32". */
extern const char *const safetensors_dtype[NUM_DTYPES];

#endif
