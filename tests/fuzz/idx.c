/* IDX files: images and labels, plain and gzipped; the latter from the input or packed here. */
#include "common/data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/fuzz/targets.h"

enum { IMAGES = 1, PACKED = 2, TURNED = 4, MAX_BYTES = 1 << 16 };

/* Compresses the input. Returns the number of bytes written to packed. */
static size_t pack(Input input, uint8_t *packed)
{
    z_stream stream = { 0 };
    const int gzip = 16 + MAX_WBITS;
    EXPECT(deflateInit2(&stream, 1, Z_DEFLATED, gzip, 1, Z_DEFAULT_STRATEGY) == Z_OK);
    stream.next_in = (Bytef *)input.data;
    stream.avail_in = (uInt)input.size;
    stream.next_out = packed;
    stream.avail_out = MAX_BYTES;
    deflate(&stream, Z_FINISH);
    deflateEnd(&stream);
    return stream.total_out;
}

void fuzz_idx(Input input)
{
    static uint8_t packed[MAX_BYTES];
    const uint8_t kind = input_byte(&input);
    if (kind & PACKED)
        input = (Input){ packed, pack(input, packed), false };

    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", world_folder(), kind & TURNED ? "emnist-t" : "t");
    unlink(path);
    EXPECT(symlink(world_file(input.data, input.size), path) == 0);
    size_t shape[3] = { 0, 1, 1 };
    uint8_t *bytes = idx_read(world_folder(), strrchr(path, '/') + 1, kind & IMAGES ? 3 : 1, shape);
    unlink(path);
    world_passed();
    unsigned sum = 0;
    for (size_t i = 0; i < shape[0] * shape[1] * shape[2]; i++)
        sum += bytes[i];
    EXPECT(sum < UINT32_MAX);
    free(bytes);
}
