/*
 * A safetensors file in memory, and how it is read. It may come from anywhere: nothing in it is
 * trusted.
 *
 * The header's length is compared with the file's before memory is allocated, every tensor's shape
 * with its offsets, and the offsets with each other: the tensors must tile the data without gap or
 * overlap, so no byte is hidden and none is read twice. The file is read, not mapped: a mapped file
 * that shrinks raises SIGBUS.
 */
#include <ctype.h>
#include <endian.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/save/safetensors.h"

#define MAX_HEADER_BYTES (1u << 20) // as JSON it takes up to 80 times as much memory
#define ALIGNMENT 64u // of a tensor in memory, wherever it lies in the file

const char *const safetensors_dtype[NUM_DTYPES] = {
    [FLOAT32] = "F32", [BFLOAT16] = "BF16", [FLOAT64] = "F64",
    [INT32] = "I32",   [INT64] = "I64",     [UINT8] = "U8",
};

const char *safetensors_metadata(const Safetensors *file, const char *key)
{
    return json_string_value(json_object_get(file->metadata, key));
}

const StoredTensor *safetensors_find(const Safetensors *file, const char *name)
{
    for (int i = 0; i < file->num_tensors; i++)
        if (strcmp(file->tensor[i].name, name) == 0)
            return &file->tensor[i];
    return NULL;
}

Safetensors *safetensors_create(void)
{
    Safetensors *file = mem_calloc(1, sizeof *file);
    file->metadata = json_object();
    CHECK(file->metadata != NULL, "out of memory");
    return file;
}

void safetensors_free(Safetensors *file)
{
    if (file == NULL)
        return;
    for (int i = 0; i < file->num_tensors; i++) {
        free(file->tensor[i].name);
        free(file->tensor[i].shape);
    }
    free(file->tensor);
    free(file->data);
    json_decref(file->metadata);
    free(file);
}

uint32_t safetensors_checksum(const Safetensors *file)
{
    uLong crc = crc32_z(0, NULL, 0);
    for (int i = 0; i < file->num_tensors; i++) {
        const StoredTensor *tensor = &file->tensor[i];
        crc = crc32_z(crc, (const Bytef *)tensor->name, strlen(tensor->name));
        crc = crc32_z(crc, tensor->data, tensor->bytes);
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

/* A file being read, and where its error goes. */
typedef struct {
    const char *path;
    int fd;
    size_t data_bytes; // after the header
    char *error;
    size_t error_bytes;
} Reader;

/* Writes why the file is refused. Returns false, so that a check can return it. */
__attribute__((format(printf, 2, 3))) static bool reject(const Reader *reader, const char *text,
                                                         ...)
{
    char reason[512];
    va_list args;
    va_start(args, text);
    vsnprintf(reason, sizeof reason, text, args);
    va_end(args);
    snprintf(reader->error, reader->error_bytes, "%s: %s", reader->path, reason);

    // A name in the file may contain anything: it must not break the line or move the cursor.
    for (char *c = reader->error; *c != '\0'; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
    return false;
}

static bool read_exactly(const Reader *reader, void *buffer, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = read(reader->fd, (char *)buffer + done, bytes - done);
        if (n == 0)
            return reject(reader, "became shorter while it was read");
        if (n < 0 && errno != EINTR)
            return reject(reader, "cannot read: %s", strerror(errno));
        done += n < 0 ? 0 : (size_t)n;
    }
    return true;
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool read_header_bytes(Reader *reader, size_t *header_bytes)
{
    struct stat status;
    if (fstat(reader->fd, &status) < 0 || !S_ISREG(status.st_mode))
        return reject(reader, "is no regular file");
    const size_t file_bytes = (size_t)status.st_size;

    uint64_t length = 0;
    if (file_bytes < sizeof length)
        return reject(reader, "is no safetensors file: it has only %zu bytes", file_bytes);
    if (!read_exactly(reader, &length, sizeof length))
        return false;
    length = le64toh(length);
    if (length <= file_bytes - sizeof length && length > MAX_HEADER_BYTES)
        return reject(reader, "claims a header of %llu bytes, and %u are the most that is read",
                      (unsigned long long)length, MAX_HEADER_BYTES);
    if (length > file_bytes - sizeof length)
        return reject(reader,
                      "is damaged or no safetensors file: it claims a header of %llu bytes, "
                      "the file has %zu",
                      (unsigned long long)length, file_bytes);
    *header_bytes = length;
    reader->data_bytes = file_bytes - sizeof length - length;
    return true;
}

/* NULL if it is not a JSON object. Jansson limits its depth. */
static json_t *read_header(Reader *reader)
{
    size_t bytes = 0;
    if (!read_header_bytes(reader, &bytes))
        return NULL;

    char *text = mem_calloc(bytes, 1);
    json_t *header = NULL;
    if (read_exactly(reader, text, bytes)) {
        json_error_t problem = { .text = "does not begin with {" };
        if (bytes > 0 && text[0] == '{')
            header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &problem);
        if (header == NULL)
            reject(reader, "its header is not valid: %s", problem.text);
    }
    free(text);
    return header;
}

static bool parse_metadata(const Reader *reader, Safetensors *file, json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return reject(reader, "__metadata__ is not an object");
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) return reject(
        reader, "metadata \"%s\" is not a string", key);
    json_object_update(file->metadata, metadata);
    return true;
}

static bool parse_shape(const Reader *reader, StoredTensor *tensor, const json_t *shape)
{
    if (!json_is_array(shape))
        return reject(reader, "tensor \"%s\": its shape is not an array", tensor->name);
    tensor->ndim = (int)json_array_size(shape);
    tensor->shape = mem_calloc((size_t)tensor->ndim, sizeof *tensor->shape);
    tensor->bytes = dtype_size(tensor->type);
    for (int i = 0; i < tensor->ndim; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return reject(reader, "tensor \"%s\": size %d of its shape is not a count",
                          tensor->name, i);
        tensor->shape[i] = (size_t)json_integer_value(size);
        if (__builtin_mul_overflow(tensor->bytes, tensor->shape[i], &tensor->bytes))
            return reject(reader, "tensor \"%s\": its shape is too large", tensor->name);
    }
    return true;
}

static bool parse_tensor(const Reader *reader, StoredTensor *tensor, const char *name,
                         json_t *value)
{
    const char *dtype;
    const json_t *shape;
    json_int_t begin, end;
    json_error_t problem;
    tensor->name = strdup(name);
    if (tensor->name == NULL)
        return reject(reader, "out of memory");
    if (json_unpack_ex(value, &problem, 0, "{s:s, s:o, s:[I,I!]}", "dtype", &dtype, "shape", &shape,
                       "data_offsets", &begin, &end) < 0)
        return reject(reader, "tensor \"%s\": %s", name, problem.text);

    while (tensor->type < NUM_DTYPES && strcmp(safetensors_dtype[tensor->type], dtype) != 0)
        tensor->type++;
    if (tensor->type == NUM_DTYPES)
        return reject(reader, "tensor \"%s\" has type %s; known are F32, BF16, F64, I32, I64, U8",
                      name, dtype);
    if (!parse_shape(reader, tensor, shape))
        return false;
    if (begin < 0 || end < begin || (size_t)(end - begin) != tensor->bytes)
        return reject(reader,
                      "tensor \"%s\": its shape takes %zu bytes, its offsets are %lld, %lld", name,
                      tensor->bytes, (long long)begin, (long long)end);
    tensor->begin = (size_t)begin;
    return true;
}

/* By position in the data. Only empty tensors can share one; the header's order decides for them.
 */
static int compare_tensors(const void *one, const void *other)
{
    const StoredTensor *a = one, *b = other;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->header_index - b->header_index;
}

static bool parse_header(const Reader *reader, Safetensors *file, json_t *header)
{
    const char *name;
    json_t *value;
    file->tensor = mem_calloc(json_object_size(header), sizeof *file->tensor);
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (!parse_metadata(reader, file, value))
                return false;
            continue;
        }
        StoredTensor *tensor = &file->tensor[file->num_tensors];
        tensor->header_index = file->num_tensors++;
        if (!parse_tensor(reader, tensor, name, value))
            return false;
    }
    qsort(file->tensor, (size_t)file->num_tensors, sizeof *file->tensor, compare_tensors);
    return true;
}

/* Every tensor begins where the previous one ends, and the last ends with the file. */
static bool check_tiling(const Reader *reader, const Safetensors *file)
{
    size_t end = 0;
    for (int i = 0; i < file->num_tensors; i++) {
        const StoredTensor *tensor = &file->tensor[i];
        if (tensor->begin != end)
            return reject(reader, "tensor \"%s\" begins at byte %zu, but what precedes ends at %zu",
                          tensor->name, tensor->begin, end);
        end += tensor->bytes;
    }
    if (end != reader->data_bytes)
        return reject(reader, "is damaged: it has %zu bytes of data, its tensors take %zu",
                      reader->data_bytes, end);
    return true;
}

/* Into one piece of memory: up to 32 MiB, malloc reuses what was freed after the file before. A
 * file with holes may be larger than any memory. */
static bool read_data(const Reader *reader, Safetensors *file)
{
    const size_t room = reader->data_bytes + (size_t)file->num_tensors * ALIGNMENT;
    size_t available = 0;
    if (!mem_fits(room, &available))
        return reject(reader, "its tensors take %zu bytes, and this machine has %zu to give", room,
                      available);
    file->data = aligned_alloc(ALIGNMENT, aligned(room + 1));
    if (file->data == NULL)
        return reject(reader, "no memory for the %zu bytes of its tensors", room);
    uint8_t *data = file->data;
    for (int i = 0; i < file->num_tensors; i++) {
        StoredTensor *tensor = &file->tensor[i];
        tensor->data = data;
        if (!read_exactly(reader, data, tensor->bytes))
            return false;
        data += aligned(tensor->bytes);
    }
    return true;
}

static Safetensors *read_file(const char *path, bool with_data, char *error, size_t error_bytes)
{
    // Without O_NONBLOCK, opening a pipe would block until somebody writes to it.
    Reader reader = { .path = path, .error = error, .error_bytes = error_bytes };
    reader.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (reader.fd < 0) {
        reject(&reader, "%s", strerror(errno));
        return NULL;
    }

    Safetensors *file = safetensors_create();
    json_t *header = read_header(&reader);
    const bool valid = header != NULL && parse_header(&reader, file, header) &&
                       check_tiling(&reader, file) && (!with_data || read_data(&reader, file));
    json_decref(header);
    close(reader.fd);
    if (valid)
        return file;
    safetensors_free(file);
    return NULL;
}

Safetensors *safetensors_open(const char *path, char *error, size_t error_bytes)
{
    return read_file(path, true, error, error_bytes);
}

Safetensors *safetensors_peek(const char *path, char *error, size_t error_bytes)
{
    return read_file(path, false, error, error_bytes);
}
