/* Reading trusts nothing in the file. The header's length is compared with the file's before memory
 * is allocated, each tensor's shape with its offsets, and these with the end of the file. The file
 * is read, not mapped: a mapped file that shrinks raises SIGBUS. */
#include "common/save/safetensors.h"

#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
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

#define MAX_HEADER_BYTES 100000000u // the format's own limit
#define JSON_COST 80 // times as much memory as text, at most
#define METADATA "__metadata__"
#define reject(...) file_reject(file, __VA_ARGS__)

static const char *const type_name[NUM_DTYPES] = {
    [FLOAT32] = "F32", [BFLOAT16] = "BF16", [FLOAT64] = "F64",
    [INT32] = "I32",   [INT64] = "I64",     [UINT8] = "U8",
};

const char *safetensors_metadata(const Safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, METADATA), key));
}

const char *safetensors_metadata_key(const Safetensors *file, int i)
{
    json_t *metadata = json_object_get(file->header, METADATA);
    void *entry = json_object_iter(metadata);
    while (i-- > 0 && entry != NULL)
        entry = json_object_iter_next(metadata, entry);
    return entry != NULL ? json_object_iter_key(entry) : NULL;
}

const StoredTensor *safetensors_find(const Safetensors *file, const char *name)
{
    for (int i = 0; i < file->num_tensors; i++)
        if (strcmp(file->tensor[i].name, name) == 0)
            return &file->tensor[i];
    return NULL;
}

void safetensors_free(Safetensors *file)
{
    for (int i = 0; i < file->num_tensors; i++)
        free(file->tensor[i].own);
    free(file->tensor);
    free(file->data);
    json_decref(file->header);
}

uint32_t safetensors_checksum(const Safetensors *file, bool in_order)
{
    uLong sum = 0, crc = 0;
    for (int i = 0; i < file->num_tensors; i++) {
        const StoredTensor *tensor = &file->tensor[i];
        crc = crc32_z(in_order ? crc : 0, (const Bytef *)tensor->name, strlen(tensor->name));
        sum += crc = crc32_z(crc, tensor->data, tensor->bytes);
    }
    return (uint32_t)(in_order ? crc : sum);
}

uint32_t safetensors_metadata_checksum(const Safetensors *file, const char *except)
{
    json_t *rest = json_copy(json_object_get(file->header, METADATA));
    json_object_del(rest, except);
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    CHECK(text != NULL, "out of memory");
    const uLong crc = crc32_z(0, (const Bytef *)text, strlen(text));
    free(text);
    json_decref(rest);
    return (uint32_t)crc;
}

bool file_reject(Safetensors *file, const char *format, ...)
{
    const size_t length = (size_t)snprintf(file->error, sizeof file->error, "%s: ", file->path);
    va_list args;
    va_start(args, format);
    vsnprintf(file->error + length, sizeof file->error - length, format, args);
    va_end(args);
    text_disarm(file->error, "");
    return false;
}

static bool read_all(Safetensors *file, int fd, void *buffer, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = read(fd, (char *)buffer + done, bytes - done);
        if (n == 0 || (n < 0 && errno != EINTR))
            return reject("cannot read: %s", n < 0 ? strerror(errno) : "it became shorter");
        done += n < 0 ? 0 : (size_t)n;
    }
    return true;
}

/* Returns false if it is not a JSON object. Jansson limits its depth. */
static bool read_header(Safetensors *file, int fd)
{
    struct stat status;
    uint64_t length = 0;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return reject("is no regular file");
    const size_t file_bytes = (size_t)status.st_size;
    if (file_bytes < sizeof length)
        return reject("is no safetensors file: it has only %zu bytes", file_bytes);
    if (!read_all(file, fd, &length, sizeof length))
        return false;
    const size_t bytes = le64toh(length);
    const bool is_header = bytes <= file_bytes - sizeof length && bytes <= MAX_HEADER_BYTES;
    if (!is_header)
        return reject("is damaged or no safetensors file: it claims a header of %zu bytes, the "
                      "file has %zu, and the format allows %u",
                      bytes, file_bytes, MAX_HEADER_BYTES);
    file->data_bytes = file_bytes - sizeof length - bytes;
    size_t available = 0;
    if (!mem_fits(JSON_COST * bytes, &available))
        return reject("its header of %zu bytes may take %zu as JSON, and this machine has %zu to "
                      "give",
                      bytes, JSON_COST * bytes, available);

    char *text = mem_calloc(bytes + 1, 1);
    json_error_t problem = { .text = "does not begin with {" };
    const bool is_read = read_all(file, fd, text, bytes);
    if (is_read && text[0] == '{')
        file->header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &problem);
    free(text);
    return file->header != NULL || (is_read && reject("its header is not valid: %s", problem.text));
}

/* Multiplies the bits of an element by the shape. Returns false if a size is not a count, or the
 * tensor is larger than any memory. */
static bool parse_shape(StoredTensor *tensor, const json_t *shape, size_t *bits)
{
    tensor->ndim = (int)json_array_size(shape);
    for (int i = 0; i < tensor->ndim; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        const json_int_t count = json_integer_value(size);
        if (!json_is_integer(size) || count < 0 ||
            __builtin_mul_overflow(*bits, (size_t)count, bits))
            return false;
        if (i < SAFETENSORS_MAX_DIMS)
            tensor->shape[i] = (size_t)count;
    }
    return json_is_array(shape);
}

/* Appends the tensor that the header's entry describes. */
static bool parse_tensor(Safetensors *file, const char *name, json_t *value)
{
    const json_t *shape;
    json_int_t begin, end;
    json_error_t problem;
    file->tensor = realloc(file->tensor, (size_t)(file->num_tensors + 1) * sizeof *file->tensor);
    CHECK(file->tensor != NULL, "out of memory");
    StoredTensor *tensor = &file->tensor[file->num_tensors++];
    *tensor = (StoredTensor){ .name = name };
    if (json_unpack_ex(value, &problem, 0, "{s:s, s:o, s:[I,I!]}", "dtype", &tensor->dtype, "shape",
                       &shape, "data_offsets", &begin, &end) < 0)
        return reject("tensor \"%s\": %s", name, problem.text);
    while (tensor->type < NUM_DTYPES && strcmp(type_name[tensor->type], tensor->dtype) != 0)
        tensor->type++;
    // A type's name has the bits of an element: F4, F8_E4M3, BF16. Another name: any number.
    const char *digits = tensor->dtype + strcspn(tensor->dtype, "123456789");
    size_t bits = strcmp(tensor->dtype, "BOOL") == 0 ? 8 : strtoul(digits, NULL, 10);
    const bool is_known = bits > 0;
    if (!parse_shape(tensor, shape, &bits))
        return reject("tensor \"%s\": its shape is not valid", name);
    tensor->begin = (size_t)begin;
    tensor->bytes = (size_t)end - (size_t)begin;
    return (begin >= 0 && end >= begin && (size_t)end <= file->data_bytes &&
            (!is_known || (bits % 8 == 0 && tensor->bytes == bits / 8))) ||
           reject("is damaged: tensor \"%s\" has a shape of %.15g bytes and is at %lld to %lld, of "
                  "%zu bytes of data",
                  name, (double)bits / 8, (long long)begin, (long long)end, file->data_bytes);
}

/* Checks that all tensors together take as many bytes as the file has: otherwise some of it is
 * hidden, or used twice. */
static bool parse_header(Safetensors *file)
{
    const char *name;
    json_t *value;
    size_t total = 0;
    json_object_foreach(file->header, name, value)
    {
        if (strcmp(name, METADATA) == 0) // a value that is not a string counts as missing
            continue;
        if (!parse_tensor(file, name, value))
            return false;
        total += file->tensor[file->num_tensors - 1].bytes;
        if (total > file->data_bytes) // before the sum can wrap around
            break;
    }
    return total == file->data_bytes ||
           reject("is damaged: it has %zu bytes of data, its tensors take %zu", file->data_bytes,
                  total);
}

/* Reads into one piece of memory: up to 32 MiB, malloc reuses what was freed after the file before.
 * A file with holes may be larger than any memory. */
static bool read_data(Safetensors *file, int fd)
{
    size_t available = 0;
    file->data = mem_fits(file->data_bytes, &available) ? malloc(file->data_bytes + 1) : NULL;
    if (file->data == NULL)
        return reject("its tensors take %zu bytes, and this machine has %zu to give",
                      file->data_bytes, available);
    if (!read_all(file, fd, file->data, file->data_bytes))
        return false;
    for (int i = 0; i < file->num_tensors; i++) {
        StoredTensor *tensor = &file->tensor[i];
        tensor->data = file->data + tensor->begin;
        if (tensor->type == NUM_DTYPES || tensor->begin % dtype_size(tensor->type) == 0)
            continue;
        tensor->own = mem_alloc(tensor->bytes, 1); // aligned, which not all writers of files do
        tensor->data = memcpy(tensor->own, tensor->data, tensor->bytes);
    }
    return true;
}

bool safetensors_open(Safetensors *file, const char *path, SafetensorsPart part)
{
    *file = (Safetensors){ 0 };
    snprintf(file->path, sizeof file->path, "%s", path);
    // Without O_NONBLOCK, opening a pipe would block until it has a writer.
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return reject("%s", strerror(errno));
    const bool valid =
        read_header(file, fd) && parse_header(file) && (part == HEADER_ONLY || read_data(file, fd));
    close(fd);
    return valid;
}

void safetensors_create(Safetensors *file, const char *path)
{
    *file = (Safetensors){ .header = json_pack("{s:{}}", METADATA) };
    CHECK(file->header != NULL, "out of memory");
    snprintf(file->path, sizeof file->path, "%s", path);
}

void safetensors_add(Safetensors *file, const char *name, DType type, int ndim, const size_t *shape,
                     const void *data)
{
    json_t *sizes = json_array();
    const json_int_t begin = (json_int_t)file->data_bytes;
    json_int_t end = (json_int_t)dtype_size(type);
    for (int i = 0; i < ndim; i++) {
        json_array_append_new(sizes, json_integer((json_int_t)shape[i]));
        end *= (json_int_t)shape[i];
    }
    end += begin;
    file->data_bytes = (size_t)end;
    json_t *value = json_pack("{s:s, s:o, s:[I,I]}", "dtype", type_name[type], "shape", sizes,
                              "data_offsets", begin, end);
    CHECK(json_object_get(file->header, name) == NULL &&
              json_object_set_new(file->header, name, value) == 0,
          "safetensors: the name \"%s\" is taken, or not UTF-8", name);
    const char *key = json_object_iter_key(json_object_iter_at(file->header, name));
    CHECK(parse_tensor(file, key, value), "safetensors: %s", file->error);
    file->tensor[file->num_tensors - 1].data = data;
}

void safetensors_add_metadata(Safetensors *file, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    json_t *value = json_vsprintf(format, args); // NULL if it is not UTF-8
    va_end(args);
    CHECK(json_object_set_new(json_object_get(file->header, METADATA), key, value) == 0,
          "safetensors: metadata \"%s\" is not UTF-8", key);
}

/* Returns false and sets errno on failure. */
static bool write_file(const Safetensors *file, const char *header, size_t bytes)
{
    uint64_t number;
    char path[PATH_MAX], aside[PATH_MAX + 32];
    SYS_CHECK(getrandom(&number, sizeof number, 0));
    snprintf(aside, sizeof aside, "%s.%" PRIu64 ".tmp", file->path, number);
    strcpy(path, file->path);
    const int folder = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return false;
    const int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool ok = fd >= 0 && write_all(fd, header, bytes);
    for (int i = 0; ok && i < file->num_tensors; i++)
        ok = write_all(fd, file->tensor[i].data, file->tensor[i].bytes);
    // Some file systems cannot flush a folder and return EINVAL.
    ok = ok && fsync(fd) == 0 && rename(aside, file->path) == 0 &&
         (fsync(folder) == 0 || errno == EINVAL);
    const int reason = errno;
    if (fd >= 0 && !ok)
        unlink(aside);
    if (fd >= 0)
        close(fd); // fsync has already reported any error
    close(folder);
    errno = reason;
    return ok;
}

bool safetensors_commit(Safetensors *file)
{
    // The length, and the header with spaces, so that the data begins at a multiple of 8 bytes.
    char *text = NULL, *json = json_dumps(file->header, JSON_COMPACT);
    CHECK(json != NULL, "out of memory");
    const uint64_t width = (strlen(json) + 7) / 8 * 8, length = htole64(width);
    CHECK(asprintf(&text, "%8s%-*s", "", (int)width, json) >= 0, "out of memory");
    memcpy(text, &length, sizeof length);

    // What a killed process leaves, the next start removes; what it takes from us is written again.
    const size_t bytes = sizeof length + width;
    const bool ok =
        write_file(file, text, bytes) || (errno == ENOENT && write_file(file, text, bytes));
    if (!ok)
        snprintf(file->error, sizeof file->error, "cannot write %s: %s", file->path,
                 strerror(errno));
    free(text);
    free(json);
    return ok;
}
