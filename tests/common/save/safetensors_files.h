/* safetensors_files.h - shared by the tests of safetensors: their own folder and small files. */
#ifndef TESTS_COMMON_SAVE_SAFETENSORS_FILES_H
#define TESTS_COMMON_SAVE_SAFETENSORS_FILES_H

#include "common/save/safetensors.h"
#include "tests/helpers/folder.h"

static char path[64]; // the file that every test uses and removes

static inline int make_file_folder(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    return 0;
}

/* Writes a file with this header, where ' stands for ", and data_bytes zeros. */
static inline void put_header(const char *header, size_t data_bytes)
{
    const size_t header_bytes = strlen(header);
    char *bytes = calloc(8 + header_bytes + data_bytes, 1);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(header_bytes >> 8 * i);
    for (size_t i = 0; i < header_bytes; i++)
        bytes[8 + i] = header[i] == '\'' ? '"' : header[i];
    file_put(path, bytes, 8 + header_bytes + data_bytes);
    free(bytes);
}

static inline Safetensors open_file(const char *name)
{
    Safetensors file;
    if (!safetensors_open(&file, name, WITH_DATA))
        fail_msg("%s", file.error);
    return file;
}

static inline void open_and_free(const char *name)
{
    Safetensors file = open_file(name);
    safetensors_free(&file);
}

static inline void commit(Safetensors *file)
{
    if (!safetensors_commit(file))
        fail_msg("%s", file->error);
}

/* Returns two tensors with twenty bytes of data. */
static inline Safetensors make_small(void)
{
    Safetensors file;
    static const int64_t step = 7;
    static const float weight[3] = { 1, -1, 0.5f };
    safetensors_create(&file, path);
    safetensors_add(&file, "step", INT64, 0, NULL, &step);
    safetensors_add(&file, "w", FLOAT32, 2, (size_t[]){ 1, 3 }, weight);
    safetensors_add_metadata(&file, "format", "pt");
    return file;
}

#endif
