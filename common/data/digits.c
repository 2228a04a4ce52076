/* The digits are part of the program, so training needs no download: the assembler copies the
 * compressed file into the read-only data, and here it is inflated, parsed and made to look like
 * MNIST, whose images are 28 x 28 with the digit in the 20 x 20 pixels in the middle. */
#include "common/data/dataset.h"

#include <stdlib.h>
#include <zlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

enum { ROWS = DIGITS_ROWS, SMALL = 8, INNER = 20, SIDE = 28, BORDER = (SIDE - INNER) / 2 };
enum { MAX_PIXEL = 16, MAX_LABEL = 9 };
enum { MAX_CSV_BYTES = ROWS * (SMALL * SMALL + 1) * 3 }; // each number: two digits and a comma

#define DAMAGED \
    "the digits in this program are damaged: restore data/digits.csv.gz, then build it anew"

// The path is relative to the top of the repository, where make runs the compiler.
__asm__(".pushsection .rodata\n"
        ".global digits_csv_gz, digits_csv_gz_end\n"
        "digits_csv_gz: .incbin \"data/digits.csv.gz\"\n"
        "digits_csv_gz_end:\n"
        ".popsection\n");
extern const uint8_t digits_csv_gz[], digits_csv_gz_end[];

/* Returns the text of the file, zero-terminated. */
static char *digits_inflate(void)
{
    char *text = mem_calloc(MAX_CSV_BYTES + 1, 1);
    z_stream stream = { .next_in = (uint8_t *)digits_csv_gz,
                        .avail_in = (unsigned)(digits_csv_gz_end - digits_csv_gz),
                        .next_out = (uint8_t *)text,
                        .avail_out = MAX_CSV_BYTES };
    const int gzip = 16 + MAX_WBITS;
    CHECK(inflateInit2(&stream, gzip) == Z_OK && inflate(&stream, Z_FINISH) == Z_STREAM_END,
          DAMAGED);
    inflateEnd(&stream);
    return text;
}

/* Reads a number from 0 to max and the separator after it. */
static int digits_number(const char **text, int max, char separator)
{
    const char *end = *text;
    int value = 0;
    for (; *end >= '0' && *end <= '9' && value <= max; end++)
        value = 10 * value + (*end - '0');
    CHECK(end > *text && value <= max && *end == separator, DAMAGED);
    *text = end + 1;
    return value;
}

/* In each direction, pixel i of the large image lies between two of the small one. Pixels are
 * squares and their centres lie half a pixel in; beyond the outermost centres the edge is repeated.
 * Returns the lower of the two; *weight is the weight of the upper, the lower has the rest. */
static int between(int i, float *weight)
{
    const float centre = ((float)i + 0.5f) * SMALL / INNER - 0.5f;
    const float position = centre > 0 ? centre : 0;
    *weight = position - (float)(int)position;
    return (int)position;
}

/* Interpolates between two pixels side by side. */
static float interpolate(const float *pixels, int low, float weight)
{
    const int high = low + 1 < SMALL ? low + 1 : low;
    return pixels[low] + weight * (pixels[high] - pixels[low]);
}

/* Enlarges an image into the middle of one of MNIST's size. */
static void digits_enlarge(float small[SMALL][SMALL], float large[SIDE][SIDE])
{
    for (int y = 0; y < INNER; y++)
        for (int x = 0; x < INNER; x++) {
            float right, down, column[SMALL];
            const int left = between(x, &right), top = between(y, &down);
            for (int row = top; row <= top + 1 && row < SMALL; row++)
                column[row] = interpolate(small[row], left, right);
            large[BORDER + y][BORDER + x] = interpolate(column, top, down);
        }
}

size_t digits_read(bool test, float **images, int32_t **labels)
{
    const size_t num_test = (ROWS + 4) / 5, size = test ? num_test : ROWS - num_test;
    float(*image)[SIDE][SIDE] = mem_calloc(size, sizeof *image);
    *images = **image;
    *labels = mem_calloc(size, sizeof **labels);

    char *csv = digits_inflate();
    const char *text = csv;
    size_t n = 0;
    for (int i = 0; i < ROWS; i++) {
        float small[SMALL][SMALL];
        for (int j = 0; j < SMALL * SMALL; j++)
            small[j / SMALL][j % SMALL] = (float)digits_number(&text, MAX_PIXEL, ',') / MAX_PIXEL;
        const int label = digits_number(&text, MAX_LABEL, '\n');
        if ((i % 5 == 0) == test) {
            (*labels)[n] = label;
            digits_enlarge(small, image[n++]);
        }
    }
    CHECK(*text == '\0', DAMAGED);
    free(csv);
    return size;
}
