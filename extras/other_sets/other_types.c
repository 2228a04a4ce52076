/* IDX files of other types and shapes than MNIST's, and images that lie on their side. What is read
 * is whatever has one meaning; all else ends with a line that says what the file holds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/data/dataset.h"

#define REMEDY "convert it, or name another folder with --data-dir"

enum { MAX_DIMS = 8, SIDE = 28, MAX_RATIO = 1032 /* of deflate */, QMNIST_COLUMNS = 8 };
enum { BYTE = 8, SIGNED_BYTE, INT_16 = 11, INT_32, FLOAT_32, FLOAT_64, NUM_TYPES };

static const struct {
    const char *name;
    size_t size;
} types[NUM_TYPES] = {
    [BYTE] = { "bytes", 1 },
    [SIGNED_BYTE] = { "signed bytes", 1 },
    [INT_16] = { "16-bit integers", 2 },
    [INT_32] = { "32-bit integers", 4 },
    [FLOAT_32] = { "32-bit floats", 4 },
    [FLOAT_64] = { "64-bit floats", 8 },
};

typedef struct {
    const char *path;
    uint8_t type;
    int ndim;
    size_t shape[MAX_DIMS], numel;
    size_t stride; // elements of the file for one that is read
    uint8_t *element; // big-endian
} Idx;

static uint64_t big_endian(const uint8_t *bytes, size_t size)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++)
        bits = bits << 8 | bytes[i];
    return bits;
}

/* Returns false if it is no complete header: idx_read says so. */
static bool read_header(Idx *idx, gzFile file)
{
    uint8_t head[4 * MAX_DIMS];
    if (gzread(file, head, 4) != 4 || head[0] != 0 || head[1] != 0 || head[2] >= NUM_TYPES ||
        types[head[2]].size == 0 || head[3] == 0 || head[3] > MAX_DIMS)
        return false;
    idx->type = head[2];
    idx->ndim = head[3];
    if (gzread(file, head, 4 * (unsigned)idx->ndim) != 4 * idx->ndim)
        return false;
    for (int i = 0; i < idx->ndim; i++)
        idx->shape[i] = big_endian(head + 4 * i, 4);
    return true;
}

/* Makes ndim dimensions of those in the file. Dies if it is not clear how. */
static void reshape(Idx *idx, int ndim)
{
    char sizes[MAX_DIMS * 16] = "";
    const int theirs = idx->ndim;
    for (int i = 0; i < theirs; i++)
        snprintf(sizes + strlen(sizes), 16, "%s%zu", i > 0 ? " x " : "", idx->shape[i]);
    idx->stride = 1;
    if (ndim == 1 && theirs == 2 && idx->type == INT_32 && idx->shape[1] == QMNIST_COLUMNS) {
        idx->stride = QMNIST_COLUMNS; // the digit, then who wrote it, and where it is kept
        idx->ndim = 1;
    } else if (ndim == 3 && theirs == 2 && idx->shape[1] == SIDE * SIDE) {
        idx->shape[1] = idx->shape[2] = SIDE;
        idx->ndim = 3;
    }
    for (int i = theirs - 1; i > 0 && idx->ndim > ndim; i--) // a channel, or a column
        if (idx->shape[i] == 1) {
            idx->ndim--;
            memmove(&idx->shape[i], &idx->shape[i + 1], (size_t)(idx->ndim - i) * sizeof(size_t));
        }
    CHECK(idx->ndim == ndim,
          "%s holds %s in %d dimension%s (%s), which cannot be read as bytes in %d: " REMEDY,
          idx->path, types[idx->type].name, theirs, theirs > 1 ? "s" : "", sizes, ndim);
}

static void read_elements(Idx *idx, gzFile file)
{
    struct stat status;
    size_t bytes = types[idx->type].size * idx->stride;
    idx->numel = 1;
    for (int i = 0; i < idx->ndim; i++) {
        CHECK(!__builtin_mul_overflow(bytes, idx->shape[i], &bytes) && bytes < INT_MAX,
              "%s claims to hold 2 GiB or more: " REMEDY, idx->path);
        idx->numel *= idx->shape[i];
    }
    CHECK(stat(idx->path, &status) == 0 && bytes / MAX_RATIO <= (size_t)status.st_size,
          "%s claims %zu bytes, more than so short a file can hold: copy it once more", idx->path,
          bytes);
    idx->element = mem_calloc(bytes + 1, 1);
    const int found = gzread(file, idx->element, (unsigned)bytes + 1);
    CHECK(found == (int)bytes,
          "%s holds %s, but is damaged: it %s its %zu bytes: copy it once more", idx->path,
          types[idx->type].name, found > (int)bytes ? "goes on after" : "ends within", bytes);
}

static double value_of(const Idx *idx, size_t i)
{
    const size_t size = types[idx->type].size;
    const uint64_t bits = big_endian(idx->element + i * idx->stride * size, size);
    float single;
    double wide;
    if (idx->type == FLOAT_32)
        return *(float *)memcpy(&single, &(uint32_t){ (uint32_t)bits }, sizeof single);
    if (idx->type == FLOAT_64)
        return *(double *)memcpy(&wide, &bits, sizeof wide);
    const size_t above = idx->type == BYTE ? 0 : 64 - 8 * size; // the sign goes up, and spreads
    return (double)((int64_t)(bits << above) >> above);
}

/* Converts whole numbers from 0 to 255, and pixels from 0 to 1: floats in steps of 1/255. */
static uint8_t *to_bytes(const Idx *idx)
{
    uint8_t *bytes = mem_calloc(idx->numel + 1, 1);
    double largest = 0;
    for (size_t i = 0; i < idx->numel; i++)
        largest = fmax(largest, value_of(idx, i));
    const bool is_share = idx->type >= FLOAT_32 && idx->ndim == 3 && largest <= 1;
    for (size_t i = 0; i < idx->numel; i++) {
        const double value = value_of(idx, i) * (is_share ? 255 : 1), whole = rint(value);
        CHECK(whole >= 0 && whole <= 255 && fabs(value - whole) < 1e-3,
              "%s holds %s, of which number %zu is %g, no whole number from 0 to 255%s: " REMEDY,
              idx->path, types[idx->type].name, i, value_of(idx, i),
              is_share ? ", divided by 255" : "");
        bytes[i] = (uint8_t)whole;
    }
    return bytes;
}

/* Swaps the rows and columns of each image. */
static void transpose(uint8_t *images, size_t shape[3])
{
    const size_t rows = shape[1], columns = shape[2], numel = rows * columns;
    uint8_t *image = mem_calloc(numel + 1, 1);
    for (size_t i = 0; i < shape[0]; i++) {
        memcpy(image, images + i * numel, numel);
        for (size_t j = 0; j < numel; j++)
            images[i * numel + j % columns * rows + j / columns] = image[j];
    }
    free(image);
    shape[1] = columns;
    shape[2] = rows;
}

uint8_t *idx_convert(const char *path, int ndim, size_t *shape)
{
    Idx idx = { .path = path };
    const bool is_turned = ndim == 3 && strncmp(strrchr(path, '/'), "/emnist-", 8) == 0;
    gzFile file = gzopen(path, "rb"); // if NULL, gzread fails, and idx_read says why
    const bool converts =
        read_header(&idx, file) && (is_turned || idx.type != BYTE || idx.ndim != ndim);
    if (converts) {
        reshape(&idx, ndim);
        read_elements(&idx, file);
    }
    gzclose(file);
    if (!converts)
        return NULL;

    uint8_t *bytes = to_bytes(&idx);
    free(idx.element);
    memcpy(shape, idx.shape, (size_t)ndim * sizeof *shape);
    if (is_turned && idx.numel > 0) // else the file's length has not confirmed the other sizes
        transpose(bytes, shape);
    if (log_prints_for_job())
        log_info("%s: reads %s%s%s", path, types[idx.type].name,
                 idx.stride > 1 ? " in 8 columns, of which the first is the label" : "",
                 is_turned ? ", turned, since EMNIST has columns first" : "");
    return bytes;
}
