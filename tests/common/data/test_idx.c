/*
 * Valid and invalid IDX files: whatever the bytes, idx_read returns what the header promises or
 * ends with one line that names the file.
 */
#include "tests/helpers/child.h"
#include "tests/helpers/exact.h"
#include "tests/helpers/folder.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/data/dataset.h"
#include "tests/common/data/idx_files.h"

bool __wrap_idx_find_other(const char *dir, const char *name, char path[PATH_MAX], char *problem);

/* Other names than MNIST's are extras/other_sets': without them common/ has to find the file. */
bool __wrap_idx_find_other(const char *dir, const char *name, char path[PATH_MAX], char *problem)
{
    if (strcmp(dir, folder) != 0 || name[0] != 't' || strncmp(path, dir, strlen(dir)) != 0 ||
        (problem[0] != '\0' && strstr(problem, dir) == NULL))
        die("another is asked for: %s/%s, %s, %s", dir, name, path, problem);
    return false;
}

static bool may_not_open;

/* In place of zlib's. */
gzFile gzopen(const char *path, const char *mode)
{
    gzFile (*next)(const char *, const char *) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "gzopen");
    return may_not_open ? errno = EMFILE, NULL : next(path, mode);
}

static void test_reads_plain_and_gzip(void **state)
{
    (void)state;
    uint8_t copy[256];
    write_plain("t", small, SMALL);
    assert_reads_small("t");
    delete ("t");
    write_gzip("t.gz", small, SMALL, copy);
    assert_reads_small("t");
    write_plain("t.gz", "damaged", 7); // the plain one comes first
    write_plain("t", small, SMALL);
    assert_reads_small("t");
    delete ("t");
    delete ("t.gz");
}

static void test_reads_one_dimension_and_none_left(void **state)
{
    (void)state;
    const uint8_t labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 7, 9 };
    size_t shape[1];
    write_plain("t", labels, sizeof labels);
    uint8_t *bytes = idx_read(folder, "t", 1, shape);
    assert_int_equal(shape[0], 2);
    assert_memory_equal(bytes, labels + 8, 2);
    free(bytes);

    const uint8_t empty[] = { 0, 0, 8, 1, 0, 0, 0, 0 };
    write_plain("t", empty, sizeof empty);
    free(idx_read(folder, "t", 1, shape));
    assert_int_equal(shape[0], 0);
    delete ("t");
}

static void test_missing(void **state)
{
    (void)state;
    assert_dies_saying(read_t, "t-idx3-ubyte", 2, "t-idx3-ubyte is missing", folder,
                       "data/get_mnist.sh", "--data-dir");

    char name[PATH_MAX + 1]; // the longest, and one that is too long
    const size_t longest = PATH_MAX - strlen(folder) - sizeof "/.gz";
    memset(name, '/', sizeof name);
    name[0] = 't';
    name[longest] = '\0';
    assert_int_equal(child_run(read_t, name), 2);
    name[longest] = '/';
    name[longest + 1] = '\0';
    assert_dies_saying(read_t, name, 1, "the path is too long: ", folder);
}

/* With something else in the file's place, idx_read neither waits for a pipe nor reads a device. */
static void test_no_regular_file(void **state)
{
    (void)state;
    char path[256];
    path_of("t", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_dies_saying(read_t, "t", 1, path, "is no regular file", "data/get_mnist.sh");
    delete ("t");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_dies_saying(read_t, "t", 1, path, "is no regular file");
    delete ("t");
    assert_int_equal(symlink("/dev/zero", path), 0);
    assert_dies_saying(read_t, "t", 1, path, "is no regular file");
    delete ("t");
    assert_int_equal(symlink("t", path), 0);
    assert_dies_saying(read_t, "t", 1, path, "Too many levels of symbolic links", "--data-dir");
    delete ("t");
    assert_int_equal(symlink("nowhere", path), 0);
    assert_dies_saying(read_t, "t", 2, path, "is missing", "--data-dir");
    delete ("t");
    write_plain("t", small, SMALL);
    assert_dies_saying(read_t, "t/t", 1, "t/t", "ot a directory", "--data-dir");
    delete ("t");
}

static void test_truncated_at_every_byte(void **state)
{
    (void)state;
    for (size_t size = 0; size < SMALL; size++) {
        write_plain("t", small, size);
        const char *reason = size == 0 ? "is empty" : size < HEADER ? "header" : "of its 12 bytes";
        assert_dies_saying(read_t, "t", 1, folder, reason, "data/get_mnist.sh");
        assert_null(strstr(err, "delete")); // because it may be a good file of another set
    }
    delete ("t");
}

static void test_gzip_truncated_at_every_byte(void **state)
{
    (void)state;
    uint8_t copy[256];
    const size_t compressed = write_gzip("t.gz", small, SMALL, copy);
    for (size_t size = 0; size < compressed; size++) {
        write_plain("t.gz", copy, size);
        assert_dies_saying(read_t, "t", 1, folder, "t.gz", "data/get_mnist.sh");
    }
    delete ("t.gz");
}

/* A bit may flip where nothing depends on it, as in the time stamp, but pixels are never wrong. */
static void test_gzip_with_every_bit_flipped(void **state)
{
    (void)state;
    uint8_t copy[256];
    const size_t compressed = write_gzip("t.gz", small, SMALL, copy);
    int refused = 0;
    for (size_t bit = 0; bit < 8 * compressed; bit++) {
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        write_plain("t.gz", copy, compressed);
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);

        const int status = child_run(read_t, "t");
        if (status == 0) {
            assert_reads_small("t");
            continue;
        }
        assert_int_equal(status, 1);
        assert_non_null(strstr(err, "t.gz"));
        refused++;
    }
    assert_true(refused > 8 * (int)compressed / 2);
    delete ("t.gz");
}

static void test_trailing_byte(void **state)
{
    (void)state;
    uint8_t longer[SMALL + 1] = { 0 }, copy[256];
    memcpy(longer, small, SMALL);
    write_plain("t", longer, sizeof longer);
    assert_dies_saying(read_t, "t", 1, "goes on after its 12 bytes");
    delete ("t");
    write_gzip("t.gz", longer, sizeof longer, copy);
    assert_dies_saying(read_t, "t", 1, "t.gz", "goes on after its 12 bytes");
    delete ("t.gz");
}

/* After the compressed stream another one continues it, and all else is padding. */
static void test_gzip_and_more(void **state)
{
    (void)state;
    uint8_t copy[512];
    const size_t compressed = write_gzip("t.gz", small, SMALL, copy);
    memcpy(copy + compressed, copy, compressed);
    write_plain("t.gz", copy, 2 * compressed);
    assert_dies_saying(read_t, "t", 1, "t.gz", "goes on after its 12 bytes");
    memset(copy + compressed, 0, 100);
    write_plain("t.gz", copy, compressed + 100);
    assert_reads_small("t");
    memcpy(copy + compressed, "garbage", 7);
    write_plain("t.gz", copy, compressed + 7);
    assert_reads_small("t");
    delete ("t.gz");
}

/* Reads with at most 16 MiB more memory than is in use now. */
static void read_in_little_memory(const void *name)
{
    rlim_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages), 1);
    fclose(file);
    const rlim_t limit = pages * (rlim_t)sysconf(_SC_PAGESIZE) + (16 << 20);
    assert_int_equal(setrlimit(RLIMIT_DATA, &(struct rlimit){ limit, limit }), 0);
    read_t(name);
}

/* A stream a thousand times as long as its file: only the header's size is kept in memory. */
static void test_gzip_bomb(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    char path[256];
    path_of("t.gz", path);
    uint8_t *zeros = mem_calloc(MIB, 1);
    gzFile file = gzopen(path, "wb1");
    assert_int_equal(gzwrite(file, small, HEADER), HEADER);
    for (int i = 0; i < 100; i++)
        assert_int_equal(gzwrite(file, zeros, MIB), MIB);
    assert_int_equal(gzclose(file), Z_OK);
    assert_dies_saying(read_in_little_memory, "t", 1, path, "goes on after its 12 bytes");

    size_t shape[1];
    file = gzopen(path, "wb9"); // as short as deflate can make it, with a correct header
    gzwrite(file, ((uint8_t[]){ 0, 0, 8, 1, 0, 16, 0, 0 }), 8);
    gzwrite(file, zeros, MIB);
    assert_int_equal(gzclose(file), Z_OK);
    free(idx_read(folder, "t", 1, shape));
    free(zeros);
    delete ("t.gz");
}

static void read_as_nobody(const void *name)
{
    if (getuid() == 0) // because root can read everything
        assert_int_equal(setuid(65534), 0);
    read_t(name);
}

static void test_unreadable(void **state)
{
    (void)state;
    char path[256];
    path_of("t", path);
    assert_int_equal(chmod(folder, 0755), 0);
    write_plain("t", small, SMALL);
    assert_int_equal(chmod(path, 0), 0);
    assert_dies_saying(read_as_nobody, "t", 1, path, "Permission denied", "--data-dir");
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(chmod(path, 0600), 0);
    may_not_open = true;
    assert_dies_saying(read_t, "t", 1, path, "Too many open files");
    may_not_open = false;
    delete ("t");
}

static void test_wrong_magic(void **state)
{
    (void)state;
    const uint8_t wrong[][4] = { { 1, 0, 8, 3 },    { 0, 1, 8, 3 }, { 0, 0, 10, 3 },
                                 { 0, 0, 0x0f, 3 }, { 0, 0, 8, 0 }, { 0, 0, 8, 9 },
                                 { 'P', 'K', 3, 4 } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint8_t bytes[SMALL];
        memcpy(bytes, small, SMALL);
        memcpy(bytes, wrong[i], 4);
        write_plain("t", bytes, SMALL);
        char magic[16];
        snprintf(magic, sizeof magic, "%02x%02x%02x%02x", wrong[i][0], wrong[i][1], wrong[i][2],
                 wrong[i][3]);
        assert_dies_saying(read_t, "t", 1, folder, "no IDX file", magic, "00000803");
    }
    delete ("t");
}

static void test_huge_sizes(void **state)
{
    (void)state;
    // The third's product is 2^64, which is 0 in 64 bits.
    const uint32_t huge[][3] = { { 0x80000000, 1, 1 },
                                 { 0xffffffff, 0xffffffff, 0xffffffff },
                                 { 0x10000000, 0x10000000, 0x100 },
                                 { 46341, 46341, 1 },
                                 { 1, 1, 0x7fffffff },
                                 { 1, 0x7ffffffe, 1 }, // below 2 GiB, but not in so short a file
                                 { 1032, SMALL + 1, 1 },
                                 { 1032, SMALL, 1 } }; // deflate could make it as short
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        uint8_t bytes[SMALL];
        memcpy(bytes, small, SMALL);
        for (int j = 0; j < 12; j++)
            bytes[4 + j] = (uint8_t)(huge[i][j / 4] >> (24 - 8 * (j % 4)));
        write_plain("t", bytes, SMALL);
        assert_dies_saying(read_t, "t", 1, folder,
                           i < 5   ? "2 GiB"
                           : i < 7 ? "so short a file"
                                   : "ends after 12 of its 28896 bytes");
    }
    delete ("t");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_plain_and_gzip),
        cmocka_unit_test(test_reads_one_dimension_and_none_left),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_no_regular_file),
        cmocka_unit_test(test_truncated_at_every_byte),
        cmocka_unit_test(test_gzip_truncated_at_every_byte),
        cmocka_unit_test(test_gzip_with_every_bit_flipped),
        cmocka_unit_test(test_trailing_byte),
        cmocka_unit_test(test_gzip_and_more),
        cmocka_unit_test(test_gzip_bomb),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_wrong_magic),
        cmocka_unit_test(test_huge_sizes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_empty_folder);
}
