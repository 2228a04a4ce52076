/* An IDX file is a header of big-endian 32-bit numbers and then the elements. The first number
 * holds the element type (8: bytes) and the number of dimensions, the others are the sizes. zlib
 * opens plain and compressed files alike. One byte more is read than the header promises, which
 * finds trailing bytes and makes zlib verify the checksum at the end of a compressed file. */
#include "common/data/dataset.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define IDX_MAGIC 0x0800 // bytes; the number of dimensions is added
#define MAX_RATIO 1032 // largest compression ratio of deflate
#define ELSEWHERE "run data/get_mnist.sh, or name another folder with --data-dir"
#define REMEDY "move it away and " ELSEWHERE // it may be good, but belong to another set

const char *const mnist_files[MNIST_FILES] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                               "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };

bool idx_is_usable(const char *path, char *problem)
{
    struct stat status;
    const bool is_there = stat(path, &status) == 0 && access(path, R_OK) == 0;
    if (is_there && S_ISREG(status.st_mode) && status.st_size > 0)
        return true; // not a pipe: opening one would block until it has a writer
    const char *kind = is_there && S_ISREG(status.st_mode) ? "empty" : "no regular file";
    if ((is_there || errno != ENOENT) && problem[0] == '\0')
        snprintf(problem, IDX_PROBLEM_BYTES, is_there ? "%s is %s" : "%s: %s", path,
                 is_there ? kind : strerror(errno));
    return false;
}

void idx_find(const char *dir, const char *name, char path[PATH_MAX])
{
    char problem[IDX_PROBLEM_BYTES] = "";
    bool is_found = false;
    for (int i = 0; i < 2 && !is_found; i++) {
        CHECK(snprintf(path, PATH_MAX, "%s/%s%s", dir, name, i == 0 ? "" : ".gz") < PATH_MAX,
              "the path is too long: %s/%s", dir, name);
        is_found = idx_is_usable(path, problem);
    }
    if (is_found || idx_find_other(dir, name, path, problem))
        return;
    CHECK(problem[0] == '\0', "%s: " ELSEWHERE, problem);
    usage_error("%s/%s is missing, plain and as .gz: " ELSEWHERE, dir, name);
}

/* Reads at most count bytes; fewer only where the file ends. */
static size_t idx_fill(gzFile file, void *bytes, size_t count)
{
    const int n = gzread(file, bytes, (unsigned)count);
    int status = Z_OK;
    const char *reason = gzerror(file, &status); // starts with the path
    CHECK(n >= 0 && status == Z_OK, "%s: " REMEDY, reason);
    return (size_t)n;
}

static uint32_t idx_number(gzFile file, const char *path)
{
    uint8_t b[4];
    CHECK(idx_fill(file, b, sizeof b) == sizeof b, "%s ends within its header: " REMEDY, path);
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

uint8_t *idx_read(const char *dir, const char *name, int ndim, size_t *shape)
{
    char path[PATH_MAX];
    idx_find(dir, name, path);
    uint8_t *bytes = idx_convert(path, ndim, shape);
    if (bytes != NULL)
        return bytes;
    gzFile file = gzopen(path, "rb");
    CHECK(file != NULL, "%s: %s", path, strerror(errno));

    const uint32_t magic = idx_number(file, path), expected = IDX_MAGIC + (uint32_t)ndim;
    CHECK(magic == expected,
          "%s is no IDX file of %d dimensions (starts with %08x, not %08x): " REMEDY, path, ndim,
          magic, expected);
    size_t numel = 1;
    for (int i = 0; i < ndim; i++) { // and a single gzread returns less than 2 GiB
        shape[i] = idx_number(file, path);
        CHECK(!__builtin_mul_overflow(numel, shape[i], &numel) && numel < INT_MAX,
              "%s claims to hold 2 GiB or more: " REMEDY, path);
    }

    // Memory is allocated only if the file is long enough to fill it.
    struct stat status;
    CHECK(stat(path, &status) == 0 && numel / MAX_RATIO <= (size_t)status.st_size,
          "%s claims %zu bytes, more than so short a file can hold: " REMEDY, path, numel);
    bytes = mem_calloc(numel + 1, 1);
    const size_t found = idx_fill(file, bytes, numel + 1);
    CHECK(found >= numel, "%s ends after %zu of its %zu bytes: " REMEDY, path, found, numel);
    CHECK(found == numel, "%s goes on after its %zu bytes: " REMEDY, path, numel);
    gzclose(file);
    return bytes;
}
