/* idx_files.h - a small IDX file, written to the test's folder. */
#ifndef TESTS_COMMON_DATA_IDX_FILES_H
#define TESTS_COMMON_DATA_IDX_FILES_H

#include <zlib.h>

#include "common/data/dataset.h"
#include "tests/helpers/folder.h"

// Two images of 2 x 3 pixels.
static const uint8_t small[] = { 0, 0, 8, 3, 0, 0, 0, 2,   0,   0,   0,   2,   0,   0,
                                 0, 3, 1, 2, 3, 4, 5, 250, 251, 252, 253, 254, 255, 0 };
enum { HEADER = 16, NUMEL = 12, SMALL = HEADER + NUMEL };

static inline void path_of(const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", folder, name);
}

static inline void write_plain(const char *name, const void *bytes, size_t size)
{
    char path[256];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Compresses as gzip does; returns the file's bytes too. */
static inline size_t write_gzip(const char *name, const void *bytes, size_t size, uint8_t copy[256])
{
    char path[256];
    path_of(name, path);
    gzFile file = gzopen(path, "wb9");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)size), size);
    assert_int_equal(gzclose(file), Z_OK);
    FILE *again = fopen(path, "rb");
    const size_t compressed = fread(copy, 1, 256, again);
    fclose(again);
    assert_in_range(compressed, 20, 255);
    return compressed;
}

static inline void delete (const char *name)
{
    char path[256];
    path_of(name, path);
    assert_int_equal(remove(path), 0);
}

static inline void read_t(const void *name)
{
    size_t shape[3];
    free(idx_read(folder, name, 3, shape));
}

static inline void assert_reads_small(const char *name)
{
    size_t shape[3];
    const int next = dup(0); // the first free descriptor
    close(next);
    uint8_t *bytes = idx_read(folder, name, 3, shape);
    assert_int_equal(dup(0), next); // the file is closed
    close(next);
    assert_int_equal(shape[0], 2);
    assert_int_equal(shape[1], 2);
    assert_int_equal(shape[2], 3);
    assert_memory_equal(bytes, small + HEADER, NUMEL);
    free(bytes);
}

#endif
