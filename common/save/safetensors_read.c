/*
 * Reads a safetensors file, which may come from anywhere: nothing in it is trusted.
 *
 * The header's length is compared with the file's before memory is allocated, every tensor's shape
 * with its offsets, and the offsets with each other: the tensors must tile the data without gap or
 * overlap, so no byte is hidden and none is read twice. The file is read, not mapped: a mapped file
 * that shrinks raises SIGBUS.
 */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/save/safetensors_file.h"

#define MAX_HEADER_BYTES 100000000 // the format's own limit
#define ALIGNMENT 64u // of a tensor in memory, wherever it lies in the file

/* A file being read, and where its error goes. */
typedef struct {
    const char *path;
    int fd;
    size_t data_bytes; // after the header
    char *error;
    size_t error_bytes;
} Reader;

/* Writes why the file is refused. Returns false, so that a check can return it. */
static bool reject(const Reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool reject(const Reader *reader, const char *format, ...)
{
    char reason[512];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
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
    if (length > MAX_HEADER_BYTES || length > file_bytes - sizeof length)
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

static bool parse_shape(const Reader *reader, Entry *entry, const json_t *shape)
{
    if (!json_is_array(shape))
        return reject(reader, "tensor \"%s\": its shape is not an array", entry->name);
    entry->ndim = (int)json_array_size(shape);
    entry->shape = mem_calloc((size_t)entry->ndim, sizeof *entry->shape);
    entry->bytes = dtype_size(entry->type);
    for (int i = 0; i < entry->ndim; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return reject(reader, "tensor \"%s\": size %d of its shape is not a count", entry->name,
                          i);
        entry->shape[i] = (size_t)json_integer_value(size);
        if (__builtin_mul_overflow(entry->bytes, entry->shape[i], &entry->bytes))
            return reject(reader, "tensor \"%s\": its shape is too large", entry->name);
    }
    return true;
}

static bool parse_tensor(const Reader *reader, Entry *entry, const char *name, json_t *value)
{
    const char *dtype;
    const json_t *shape;
    json_int_t begin, end;
    json_error_t problem;
    entry->name = strdup(name);
    if (entry->name == NULL)
        return reject(reader, "out of memory");
    if (json_unpack_ex(value, &problem, 0, "{s:s, s:o, s:[I,I!]}", "dtype", &dtype, "shape", &shape,
                       "data_offsets", &begin, &end) < 0)
        return reject(reader, "tensor \"%s\": %s", name, problem.text);

    while (entry->type < NUM_DTYPES && strcmp(safetensors_dtype[entry->type], dtype) != 0)
        entry->type++;
    if (entry->type == NUM_DTYPES)
        return reject(reader, "tensor \"%s\" has type %s; known are F32, BF16, F64, I32, I64, U8",
                      name, dtype);
    if (!parse_shape(reader, entry, shape))
        return false;
    if (begin < 0 || end < begin || (size_t)(end - begin) != entry->bytes)
        return reject(reader,
                      "tensor \"%s\": its shape takes %zu bytes, its offsets are %lld, %lld", name,
                      entry->bytes, (long long)begin, (long long)end);
    entry->begin = (size_t)begin;
    return true;
}

/* By place in the data. Only empty tensors can share one; the header's order decides for them. */
static int compare_entries(const void *one, const void *other)
{
    const Entry *a = one, *b = other;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->place - b->place;
}

static bool parse_header(const Reader *reader, Safetensors *file, json_t *header)
{
    const char *name;
    json_t *value;
    file->entry = mem_calloc(json_object_size(header), sizeof *file->entry);
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (!parse_metadata(reader, file, value))
                return false;
            continue;
        }
        Entry *entry = &file->entry[file->num_entries];
        entry->place = file->num_entries++;
        if (!parse_tensor(reader, entry, name, value))
            return false;
    }
    qsort(file->entry, (size_t)file->num_entries, sizeof *file->entry, compare_entries);
    return true;
}

/* Every tensor begins where the previous one ends, and the last ends with the file. */
static bool check_tiling(const Reader *reader, const Safetensors *file)
{
    size_t end = 0;
    for (int i = 0; i < file->num_entries; i++) {
        const Entry *entry = &file->entry[i];
        if (entry->begin != end)
            return reject(reader, "tensor \"%s\" begins at byte %zu, but what precedes ends at %zu",
                          entry->name, entry->begin, end);
        end += entry->bytes;
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
    const size_t room = reader->data_bytes + (size_t)file->num_entries * ALIGNMENT;
    size_t available = 0;
    if (!mem_fits(room, &available))
        return reject(reader, "its tensors take %zu bytes, and this machine has %zu to give", room,
                      available);
    file->data = aligned_alloc(ALIGNMENT, aligned(room + 1));
    if (file->data == NULL)
        return reject(reader, "no memory for the %zu bytes of its tensors", room);
    uint8_t *data = file->data;
    for (int i = 0; i < file->num_entries; i++) {
        Entry *entry = &file->entry[i];
        entry->data = data;
        if (!read_exactly(reader, data, entry->bytes))
            return false;
        data += aligned(entry->bytes);
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
    if (!valid) {
        safetensors_free(file);
        return NULL;
    }
    return file;
}

Safetensors *safetensors_open(const char *path, char *error, size_t error_bytes)
{
    return read_file(path, true, error, error_bytes);
}

Safetensors *safetensors_peek(const char *path, char *error, size_t error_bytes)
{
    return read_file(path, false, error, error_bytes);
}
