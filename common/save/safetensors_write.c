/*
 * Writes a safetensors file so that its path always has the old file or the new one.
 *
 * A temporary file in the same folder is written and flushed (fsync) before it takes the name
 * (rename); then the folder is flushed. A process or machine that dies in between leaves only the
 * temporary file, which nobody reads. It is locked while it is written: one that can be locked has
 * no writer any more, on any machine (step 05 then removes it: snapshot_folder_sweep).
 */
#include <endian.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/save/safetensors.h"

#define CREATE_TRIES 100 // of a millisecond: no sweep locks a file for longer

/* Inserts a tensor after those of the same or a larger element size: in this order every tensor is
 * aligned to its element size without padding, which the format forbids. */
static StoredTensor *insert(Safetensors *file, DType type)
{
    const size_t bytes = (size_t)(file->num_tensors + 1) * sizeof(StoredTensor);
    file->tensor = realloc(file->tensor, bytes);
    CHECK(file->tensor != NULL, "out of memory: %zu bytes wanted", bytes);

    int at = file->num_tensors++;
    for (; at > 0 && dtype_size(file->tensor[at - 1].type) < dtype_size(type); at--)
        file->tensor[at] = file->tensor[at - 1];
    return &file->tensor[at];
}

void safetensors_add(Safetensors *file, const char *name, DType type, int ndim, const size_t *shape,
                     const void *data)
{
    CHECK(safetensors_find(file, name) == NULL && strcmp(name, "__metadata__") != 0,
          "safetensors: the name \"%s\" is taken", name);
    StoredTensor tensor = {
        .name = strdup(name), .type = type, .ndim = ndim, .data = data, .bytes = dtype_size(type)
    };
    CHECK(tensor.name != NULL, "out of memory");
    tensor.shape = mem_calloc((size_t)ndim, sizeof *shape);
    for (int i = 0; i < ndim; i++) {
        tensor.shape[i] = shape[i];
        tensor.bytes *= shape[i];
    }
    *insert(file, type) = tensor;
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

static json_t *describe_shape(const StoredTensor *tensor)
{
    json_t *shape = json_array();
    for (int i = 0; i < tensor->ndim; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    return shape;
}

/* The header as text, padded with spaces so that the data begins at a multiple of 8 bytes. */
static char *write_header(const Safetensors *file, size_t *bytes)
{
    json_t *header = json_object();
    if (json_object_size(file->metadata) > 0)
        json_object_set(header, "__metadata__", file->metadata);
    json_int_t offset = 0;
    for (int i = 0; i < file->num_tensors; i++) {
        const StoredTensor *tensor = &file->tensor[i];
        const json_int_t end = offset + (json_int_t)tensor->bytes;
        json_t *value = json_pack("{s:s, s:o, s:[I,I]}", "dtype", safetensors_dtype[tensor->type],
                                  "shape", describe_shape(tensor), "data_offsets", offset, end);
        CHECK(json_object_set_new(header, tensor->name, value) == 0,
              "safetensors: the name \"%s\" is not UTF-8", tensor->name);
        offset = end;
    }
    char *json = json_dumps(header, JSON_COMPACT);
    CHECK(json != NULL, "out of memory");
    json_decref(header);

    const size_t padded = (strlen(json) + 7) / 8 * 8;
    char *text = NULL;
    CHECK(asprintf(&text, "%-*s", (int)padded, json) >= 0, "out of memory");
    free(json);
    *bytes = padded;
    return text;
}

/* Removes what has the name of a file to be created, but for one that its writer or a sweep still
 * locks. A link is not followed. */
static void remove_leftover(const char *path)
{
    const int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        unlink(path);
    if (fd >= 0)
        close(fd);
}

/* Creates the file and locks it; negative and errno on failure. It never opens what is there: a
 * link somebody prepared would lead elsewhere. A sweep between the two takes the file for a dead
 * writer's and removes it: then it is created again. */
static int create_locked(const char *path)
{
    for (int i = 0;; i++) {
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && (errno != EEXIST || i == CREATE_TRIES))
            return fd;
        struct stat status;
        const bool is_swept = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        const bool has_name = fd >= 0 && fstat(fd, &status) == 0 && status.st_nlink > 0;
        if ((has_name && !is_swept) || i == CREATE_TRIES)
            return fd; // locked, or on a file system without locks
        if (fd >= 0)
            close(fd);
        else
            remove_leftover(path);
        if (is_swept || i > 0) // just now
            usleep(1000);
    }
}

/* False and errno on failure. */
static bool write_file(const Safetensors *file, int fd)
{
    size_t header_bytes = 0;
    char *header = write_header(file, &header_bytes);
    const uint64_t length = htole64(header_bytes);
    bool ok = write_all(fd, &length, sizeof length) && write_all(fd, header, header_bytes);
    for (int i = 0; ok && i < file->num_tensors; i++)
        ok = write_all(fd, file->tensor[i].data, file->tensor[i].bytes);
    free(header); // leaves errno as it is
    return ok && fsync(fd) == 0;
}

/* Makes a new name durable. Some file systems cannot flush a folder and return EINVAL. */
static bool sync_folder_of(const char *path)
{
    char *copy = strdup(path);
    const int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd < 0)
        return false;
    const bool ok = fsync(fd) == 0 || errno == EINVAL;
    close(fd);
    return ok;
}

bool safetensors_commit(const Safetensors *file, const char *path, char *error, size_t error_bytes)
{
    // A name unique to this process: one left by a killed process is in nobody's way.
    char *aside = NULL;
    CHECK(asprintf(&aside, "%s.%d.tmp", path, (int)getpid()) >= 0, "out of memory");

    const int fd = create_locked(aside);
    const bool ok =
        fd >= 0 && write_file(file, fd) && rename(aside, path) == 0 && sync_folder_of(path);
    if (fd < 0 && errno == EEXIST)
        snprintf(error, error_bytes, "cannot write %s: remove %s, which is in the way", path,
                 aside);
    else if (!ok)
        snprintf(error, error_bytes, "cannot write %s: %s", path, strerror(errno));
    if (!ok && fd >= 0)
        unlink(aside);
    if (fd >= 0)
        close(fd); // unlocks; fsync has already reported any error
    free(aside);
    return ok;
}
