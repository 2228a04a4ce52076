/*
 * safetensors.h - reads and writes the safetensors format, and nothing else.
 *
 *     8 bytes     length of the header, little-endian
 *     header      {"__metadata__": {"epoch": "3", ...}, "conv1.weight": {"dtype": "F32", "shape":
 *                 [64,1,3,3], "data_offsets": [0,2304]}, ...}: JSON; metadata are strings
 *     data        the tensors' bytes; offsets count from here
 *
 * - To write: safetensors_create, add everything, safetensors_commit.
 * - To read: safetensors_open, or safetensors_peek for the header alone; then safetensors_find and
 *   safetensors_metadata.
 * - safetensors_free in both cases. Writing borrows the data of the tensors until then.
 * - A file that is read may come from anywhere, so it is checked; an error never ends the process.
 *
 * Source: the format section of the safetensors README (huggingface/safetensors).
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
    const void *data; // [bytes], aligned to an element; borrowed if it is to be written
    size_t bytes;
    size_t begin; // where in the file's data, if it was read
} StoredTensor;

/* A file to read, or to write, in memory. */
typedef struct {
    struct json_t *metadata; // an object of strings
    StoredTensor *tensor; // [num_tensors], in the order of the header
    int num_tensors;
    uint8_t *data; // of all tensors, if they were read
} Safetensors;

/* NULL and one line in error (what is wrong, and where) if the file is refused. The header may have
 * 1 MiB: the format allows 100 MB, which would take gigabytes as JSON. Lengths, types, shapes and
 * offsets are checked before they are used. Dies only when there is no memory for the header. */
Safetensors *safetensors_open(const char *path, char *error, size_t error_bytes);
Safetensors *safetensors_peek(const char *path, char *error, size_t error_bytes);

/* NULL if there is none with that name. */
const StoredTensor *safetensors_find(const Safetensors *file, const char *name);
const char *safetensors_metadata(const Safetensors *file, const char *key);

/* Names and metadata are escaped as JSON. */
Safetensors *safetensors_create(void);
void safetensors_add(Safetensors *file, const char *name, DType type, int ndim, const size_t *shape,
                     const void *data);
void safetensors_add_metadata(Safetensors *file, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes PATH.NUMBER.tmp, flushes it, renames it to path and flushes the folder: path is the old
 * file or the new one, never a mixture. The number is random, and only a new file is written to,
 * never a link. If somebody removes the temporary file, it is written once more. False and one line
 * in error on failure; the old file is then still there, or the new one if only flushing the folder
 * failed. */
bool safetensors_commit(const Safetensors *file, const char *path, char *error, size_t error_bytes);

void safetensors_free(Safetensors *file); // or NULL

/* Writes "PATH: why the file is refused" to error, as one line: control characters become "?",
 * since names in the file may contain anything. Returns false. */
bool file_reject(const char *path, char *error, size_t error_bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* CRC-32 over the tensors in the order of the header: name, then data. */
uint32_t safetensors_checksum(const Safetensors *file);
/* CRC-32 over all metadata except one key, as JSON with sorted keys. */
uint32_t safetensors_metadata_checksum(const Safetensors *file, const char *except);

#endif
