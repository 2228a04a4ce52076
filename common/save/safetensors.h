/* safetensors.h - reads and writes the safetensors format, and nothing else.
 *
 *     8 bytes     length of the header, little-endian
 *     header      {"__metadata__": {"epoch": "3", ...}, "conv1.weight": {"dtype": "F32", "shape":
 *                 [64,1,3,3], "data_offsets": [0,2304]}, ...}: JSON; metadata are strings
 *     data        the tensors' bytes; offsets count from here
 *
 * - To write: safetensors_create, add everything, safetensors_commit.
 * - To read: safetensors_open; then safetensors_find and safetensors_metadata.
 * - At the end, and after an error: safetensors_free. Until then it borrows the data to be written.
 * - A file that is read may come from anywhere, so it is checked; an error never ends the process.
 *
 * Source: the format section of the safetensors README (huggingface/safetensors). */
#ifndef COMMON_SAVE_SAFETENSORS_H
#define COMMON_SAVE_SAFETENSORS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/memory.h"

enum { SAFETENSORS_MAX_DIMS = 8 };

typedef struct {
    const char *name, *dtype; // "F32"; owned by the header
    DType type; // NUM_DTYPES for another type, which nothing here computes with
    int ndim; // any number: shape holds the first sizes
    size_t shape[SAFETENSORS_MAX_DIMS];
    const void *data; // [bytes], aligned to an element
    size_t bytes, begin; // where it begins in the file's data
    void *own; // its data, if that is a copy; else NULL
} StoredTensor;

/* A file in memory. Functions that return false leave one line in error. */
typedef struct {
    char path[PATH_MAX], error[PATH_MAX + 1024];
    struct json_t *header;
    StoredTensor *tensor; // [num_tensors], in the order of the header
    int num_tensors;
    size_t data_bytes; // bytes of all tensors
    uint8_t *data; // [data_bytes], if they were read; else NULL
} Safetensors;

/* Refuses what the format forbids, and what takes more memory than there is: a header, which may
 * have 100 MB, takes up to 80 times as much as JSON. */
typedef enum { HEADER_ONLY, WITH_DATA } SafetensorsPart;
bool safetensors_open(Safetensors *file, const char *path, SafetensorsPart part);

/* Return NULL if nothing has that name. */
const StoredTensor *safetensors_find(const Safetensors *file, const char *name);
const char *safetensors_metadata(const Safetensors *file, const char *key);
const char *safetensors_metadata_key(const Safetensors *file, int i); // in the order of the header

/* Names and metadata are escaped as JSON. Add tensors of larger elements first: then each is
 * aligned without padding, which the format forbids. */
void safetensors_create(Safetensors *file, const char *path);
void safetensors_add(Safetensors *file, const char *name, DType type, int ndim, const size_t *shape,
                     const void *data);
void safetensors_add_metadata(Safetensors *file, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes PATH.NUMBER.tmp, flushes it (fsync), renames it to path and flushes the folder: path is
 * the old file or the new one, never a mixture. The number is random, and only a new file is
 * written to, never a link. If another process removes the temporary file, it is written once more.
 * After an error the old file is still there, or the new one if only flushing the folder failed. */
bool safetensors_commit(Safetensors *file);

void safetensors_free(Safetensors *file);

/* Writes "PATH: why the file is refused" to error, as one line: control characters become "?",
 * since names in the file may contain anything. Returns false. */
bool file_reject(Safetensors *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Return the sum of the tensors' CRC-32, each over name and data, or the CRC-32 of all tensors in
 * the order of the header; and the CRC-32 of all metadata except one key, as JSON with sorted keys.
 */
uint32_t safetensors_checksum(const Safetensors *file, bool in_order);
uint32_t safetensors_metadata_checksum(const Safetensors *file, const char *except);

#endif
