/*
 * A safetensors file in memory, how it is read, and how it is written.
 *
 * Reading trusts nothing in the file. The header's length is compared with the file's before memory
 * is allocated, each tensor's shape with its offsets, and these with the end of the file. The file
 * is read, not mapped: a mapped file that shrinks raises SIGBUS.
 *
 * Writing goes to a temporary file in the same folder, which is flushed (fsync) before it takes the
 * name of the file (rename); then the folder is flushed. A process or machine that dies in between
 * leaves only the temporary file, which nobody reads. Step 05 removes it (snapshot_folder_sweep).
 */
#include "common/save/safetensors.h"

#include <ctype.h>
#include <endian.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/log.h"

#define MAX_HEADER_BYTES (1u << 20) // as JSON it takes up to 80 times as much memory

static const char *const type_name[NUM_DTYPES] = {
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

/* A file that is being read, and where its error goes. */
typedef struct {
    const char *path;
    int fd;
    size_t header_bytes, data_bytes;
    char *error;
    size_t error_bytes;
} Reader;

bool file_reject(const char *path, char *error, size_t error_bytes, const char *format, ...)
{
    const int length = snprintf(error, error_bytes, "%s: ", path);
    va_list args;
    va_start(args, format);
    if ((size_t)length < error_bytes)
        vsnprintf(error + length, error_bytes - (size_t)length, format, args);
    va_end(args);
    for (char *c = error; *c != '\0'; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?';
    return false;
}

#define reject(reader, ...) \
    file_reject((reader)->path, (reader)->error, (reader)->error_bytes, __VA_ARGS__)

static bool read_at(const Reader *reader, size_t offset, void *buffer, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n =
            pread(reader->fd, (char *)buffer + done, bytes - done, (off_t)(offset + done));
        if (n == 0)
            return reject(reader, "became shorter while it was read");
        if (n < 0 && errno != EINTR)
            return reject(reader, "cannot read: %s", strerror(errno));
        done += n < 0 ? 0 : (size_t)n;
    }
    return true;
}

static bool read_lengths(Reader *reader)
{
    struct stat status;
    uint64_t length = 0;
    if (fstat(reader->fd, &status) < 0 || !S_ISREG(status.st_mode))
        return reject(reader, "is no regular file");
    const size_t file_bytes = (size_t)status.st_size;
    if (file_bytes < sizeof length)
        return reject(reader, "is no safetensors file: it has only %zu bytes", file_bytes);
    if (!read_at(reader, 0, &length, sizeof length))
        return false;
    reader->header_bytes = le64toh(length);
    reader->data_bytes = file_bytes - sizeof length - reader->header_bytes;
    return (reader->header_bytes <= file_bytes - sizeof length &&
            reader->header_bytes <= MAX_HEADER_BYTES) ||
           reject(reader,
                  "is damaged or no safetensors file: it claims a header of %zu bytes, the file "
                  "has %zu, and %u are the most that is read",
                  reader->header_bytes, file_bytes, MAX_HEADER_BYTES);
}

/* NULL if it is not a JSON object. Jansson limits its depth. */
static json_t *read_header(const Reader *reader)
{
    char *text = mem_calloc(reader->header_bytes, 1);
    json_t *header = NULL;
    if (read_at(reader, sizeof(uint64_t), text, reader->header_bytes)) {
        json_error_t problem = { .text = "does not begin with {" };
        if (reader->header_bytes > 0 && text[0] == '{')
            header = json_loadb(text, reader->header_bytes, JSON_REJECT_DUPLICATES, &problem);
        if (header == NULL)
            reject(reader, "its header is not valid: %s", problem.text);
    }
    free(text);
    return header;
}

static bool parse_metadata(const Reader *reader, Safetensors *file, json_t *metadata)
{
    if (!json_is_object(metadata))
        return reject(reader, "__metadata__ is not an object");
    for (void *at = json_object_iter(metadata); at != NULL;
         at = json_object_iter_next(metadata, at))
        if (!json_is_string(json_object_iter_value(at)))
            return reject(reader, "metadata \"%s\" is not a string", json_object_iter_key(at));
    json_object_update(file->metadata, metadata);
    return true;
}

/* False if a size is not a count, or the tensor is larger than any memory. */
static bool parse_shape(StoredTensor *tensor, const json_t *shape)
{
    tensor->ndim = (int)json_array_size(shape);
    tensor->shape = mem_calloc((size_t)tensor->ndim, sizeof *tensor->shape);
    tensor->bytes = dtype_size(tensor->type);
    for (int i = 0; i < tensor->ndim; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        tensor->shape[i] = (size_t)json_integer_value(size);
        if (!json_is_integer(size) || json_integer_value(size) < 0 ||
            __builtin_mul_overflow(tensor->bytes, tensor->shape[i], &tensor->bytes))
            return false;
    }
    return json_is_array(shape);
}

static bool parse_tensor(const Reader *reader, StoredTensor *tensor, const char *name,
                         json_t *value)
{
    const char *dtype;
    const json_t *shape;
    json_int_t begin, end;
    json_error_t problem;
    tensor->name = strdup(name);
    CHECK(tensor->name != NULL, "out of memory");
    if (json_unpack_ex(value, &problem, 0, "{s:s, s:o, s:[I,I!]}", "dtype", &dtype, "shape", &shape,
                       "data_offsets", &begin, &end) < 0)
        return reject(reader, "tensor \"%s\": %s", name, problem.text);

    while (tensor->type < NUM_DTYPES && strcmp(type_name[tensor->type], dtype) != 0)
        tensor->type++;
    if (tensor->type == NUM_DTYPES)
        return reject(reader, "tensor \"%s\" has type %s; known are F32, BF16, F64, I32, I64, U8",
                      name, dtype);
    if (!parse_shape(tensor, shape))
        return reject(reader, "tensor \"%s\": its shape is not valid", name);
    tensor->begin = (size_t)begin;
    const bool fits = begin >= 0 && end >= begin && (size_t)end <= reader->data_bytes &&
                      (size_t)(end - begin) == tensor->bytes;
    const bool is_aligned = tensor->bytes == 0 || tensor->begin % dtype_size(tensor->type) == 0;
    return (fits && is_aligned) ||
           reject(reader,
                  "is damaged: tensor \"%s\" has a shape of %zu bytes and is at %lld to %lld, of "
                  "%zu bytes of data",
                  name, tensor->bytes, (long long)begin, (long long)end, reader->data_bytes);
}

/* All tensors together take as many bytes as the file has: fewer would mean that some of it is
 * hidden, and more would let a small file ask for much memory. */
static bool parse_header(const Reader *reader, Safetensors *file, json_t *header)
{
    const char *name;
    json_t *value;
    size_t total = 0;
    file->tensor = mem_calloc(json_object_size(header), sizeof *file->tensor);
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (!parse_metadata(reader, file, value))
                return false;
            continue;
        }
        StoredTensor *tensor = &file->tensor[file->num_tensors++];
        if (!parse_tensor(reader, tensor, name, value))
            return false;
        total += tensor->bytes;
        if (total > reader->data_bytes) // before the sum can wrap around
            break;
    }
    return total == reader->data_bytes ||
           reject(reader, "is damaged: it has %zu bytes of data, its tensors take %zu",
                  reader->data_bytes, total);
}

/* Into one piece of memory: up to 32 MiB, malloc reuses what was freed after the file before. A
 * file with holes may be larger than any memory. */
static bool read_data(const Reader *reader, Safetensors *file)
{
    size_t available = 0;
    if (!mem_fits(reader->data_bytes, &available))
        return reject(reader, "its tensors take %zu bytes, and this machine has %zu to give",
                      reader->data_bytes, available);
    file->data = malloc(reader->data_bytes + 1);
    if (file->data == NULL)
        return reject(reader, "no memory for the %zu bytes of its tensors", reader->data_bytes);
    for (int i = 0; i < file->num_tensors; i++)
        file->tensor[i].data = file->data + file->tensor[i].begin;
    return read_at(reader, sizeof(uint64_t) + reader->header_bytes, file->data, reader->data_bytes);
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
    json_t *header = read_lengths(&reader) ? read_header(&reader) : NULL;
    const bool valid = header != NULL && parse_header(&reader, file, header) &&
                       (!with_data || read_data(&reader, file));
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

/* The tensor is inserted after those of the same or a larger element size: in this order each is
 * aligned to its element size without padding, which the format forbids. */
void safetensors_add(Safetensors *file, const char *name, DType type, int ndim, const size_t *shape,
                     const void *data)
{
    CHECK(safetensors_find(file, name) == NULL && strcmp(name, "__metadata__") != 0,
          "safetensors: the name \"%s\" is taken", name);
    StoredTensor tensor = {
        .name = strdup(name), .type = type, .ndim = ndim, .data = data, .bytes = dtype_size(type)
    };
    tensor.shape = mem_calloc((size_t)ndim, sizeof *shape);
    for (int i = 0; i < ndim; i++) {
        tensor.shape[i] = shape[i];
        tensor.bytes *= shape[i];
    }
    int at = file->num_tensors++;
    file->tensor = realloc(file->tensor, (size_t)file->num_tensors * sizeof tensor);
    CHECK(tensor.name != NULL && file->tensor != NULL, "out of memory");
    for (; at > 0 && dtype_size(file->tensor[at - 1].type) < dtype_size(type); at--)
        file->tensor[at] = file->tensor[at - 1];
    file->tensor[at] = tensor;
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

/* The header as text, padded with spaces so that the data begins at a multiple of 8 bytes. */
static char *make_header(const Safetensors *file)
{
    json_t *header = json_object();
    if (json_object_size(file->metadata) > 0)
        json_object_set(header, "__metadata__", file->metadata);
    json_int_t offset = 0;
    for (int i = 0; i < file->num_tensors; i++) {
        const StoredTensor *tensor = &file->tensor[i];
        const json_int_t end = offset + (json_int_t)tensor->bytes;
        json_t *shape = json_array();
        for (int d = 0; d < tensor->ndim; d++)
            json_array_append_new(shape, json_integer((json_int_t)tensor->shape[d]));
        json_t *value = json_pack("{s:s, s:o, s:[I,I]}", "dtype", type_name[tensor->type], "shape",
                                  shape, "data_offsets", offset, end);
        CHECK(json_object_set_new(header, tensor->name, value) == 0,
              "safetensors: the name \"%s\" is not UTF-8", tensor->name);
        offset = end;
    }
    char *json = json_dumps(header, JSON_COMPACT), *text = NULL;
    CHECK(json != NULL, "out of memory");
    CHECK(asprintf(&text, "%-*s", (int)(strlen(json) + 7) / 8 * 8, json) >= 0, "out of memory");
    json_decref(header);
    free(json);
    return text;
}

/* Writes the file as `aside` and renames it. False and errno on failure. */
static bool write_file(const Safetensors *file, const char *aside, const char *path)
{
    char *copy = strdup(path), *header = make_header(file);
    const uint64_t length = htole64(strlen(header));
    const int folder = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int fd = folder < 0 ? -1 : open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool ok =
        fd >= 0 && write_all(fd, &length, sizeof length) && write_all(fd, header, strlen(header));
    for (int i = 0; ok && i < file->num_tensors; i++)
        ok = write_all(fd, file->tensor[i].data, file->tensor[i].bytes);
    // Some file systems cannot flush a folder and return EINVAL.
    ok =
        ok && fsync(fd) == 0 && rename(aside, path) == 0 && (fsync(folder) == 0 || errno == EINVAL);
    const int reason = errno;
    if (fd >= 0 && !ok)
        unlink(aside);
    if (fd >= 0)
        close(fd); // fsync has already reported any error
    if (folder >= 0)
        close(folder);
    free(copy);
    free(header);
    errno = reason;
    return ok;
}

bool safetensors_commit(const Safetensors *file, const char *path, char *error, size_t error_bytes)
{
    uint64_t number;
    char *aside = NULL;
    SYS_CHECK(getrandom(&number, sizeof number, 0));
    CHECK(asprintf(&aside, "%s.%llu.tmp", path, (unsigned long long)number) >= 0, "out of memory");

    // A run of step 05 that has just begun may take the temporary file for that of a killed run,
    // and remove it: then it is written again.
    const bool ok =
        write_file(file, aside, path) || (errno == ENOENT && write_file(file, aside, path));
    if (!ok)
        snprintf(error, error_bytes, "cannot write %s: %s", path, strerror(errno));
    free(aside);
    return ok;
}
