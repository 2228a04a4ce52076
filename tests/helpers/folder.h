/* folder.h - a test's own folder, and the files in it. */
#ifndef TESTS_HELPERS_FOLDER_H
#define TESTS_HELPERS_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/helpers/unit.h"

static char folder[] = "/tmp/ddp_test_XXXXXX";

/* The set-up of a test, or of a group of them. */
static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(strcpy(folder, "/tmp/ddp_test_XXXXXX")) == NULL ? -1 : 0;
}

static inline int run_on_folder(const char *before, const char *after)
{
    char command[64];
    snprintf(command, sizeof command, "%s %s %s", before, folder, after);
    return system(command);
}

static inline int clear_folder(void **state)
{
    (void)state;
    return run_on_folder("find", "-mindepth 1 -delete");
}

static inline int remove_folder(void **state)
{
    (void)state;
    return run_on_folder("rm -r", "");
}

/* Fails if a test has left something behind. */
static inline int remove_empty_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static inline void file_put(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* Reads at most `max` bytes of the file; returns how many. */
static inline size_t file_get(const char *path, void *bytes, size_t max)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t count = fread(bytes, 1, max, file);
    fclose(file);
    return count;
}

/* Simulates a disk that is full after `bytes` bytes of a file; RLIM_INFINITY ends that. */
static inline void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

#endif
