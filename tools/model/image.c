/*
 * PGM is the simplest format there is: "P5", width, height, the largest value, one space, then a
 * byte per pixel (two if the largest value is above 255); "P2" has decimal numbers instead.
 * Comments, from # to the end of the line, may stand between the numbers of the header.
 */
#include "tools/model/image.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

typedef struct {
    const uint8_t *at, *end;
} Text;

/* Reads the next decimal number, at most max; returns -1 if there is none. */
static int next_number(Text *text, int max)
{
    while (text->at < text->end && (isspace(*text->at) || *text->at == '#'))
        if (*text->at++ == '#')
            while (text->at < text->end && *text->at != '\n')
                text->at++;
    int value = -1;
    for (; text->at < text->end && isdigit(*text->at); text->at++) {
        value = (value < 0 ? 0 : 10 * value) + (*text->at - '0');
        if (value > max)
            return -1;
    }
    return value;
}

/* Reads the next pixel: a number, or one or two bytes. Returns -1 if there is none. */
static int next_pixel(Text *text, bool plain, int largest)
{
    if (plain)
        return next_number(text, largest);
    const int bytes = largest > 255 ? 2 : 1;
    if (text->end - text->at < bytes)
        return -1;
    int value = *text->at++;
    if (bytes == 2)
        value = 256 * value + *text->at++;
    return value <= largest ? value : -1;
}

static bool read_pgm(Image *image, const uint8_t *bytes, size_t size, char *error,
                     size_t error_bytes)
{
    const bool plain = bytes[1] == '2';
    Text text = { bytes + 2, bytes + size };
    const int width = next_number(&text, IMAGE_MAX_SIDE);
    const int height = next_number(&text, IMAGE_MAX_SIDE);
    const int largest = next_number(&text, 65535);
    if (width < 1 || height < 1 || largest < 1) {
        snprintf(error, error_bytes, "its PGM header is damaged, or its sides exceed %d pixels",
                 IMAGE_MAX_SIDE);
        return false;
    }
    text.at += !plain && text.at < text.end; // the one space before the pixels

    // Every pixel takes at least a byte, so allocate nothing if the file is too short.
    const size_t count = (size_t)width * (size_t)height;
    *image = (Image){ width, height, NULL };
    if ((size_t)(text.end - text.at) >= count)
        image->pixels = mem_calloc(count, 1);
    for (size_t i = 0; i < count; i++) {
        const int value = image->pixels != NULL ? next_pixel(&text, plain, largest) : -1;
        if (value < 0) {
            snprintf(error, error_bytes,
                     "it is cut off or damaged: of %d x %d pixels %zu are there", width, height, i);
            image_free(image);
            return false;
        }
        image->pixels[i] = (uint8_t)((value * 255 + largest / 2) / largest);
    }
    return true;
}

bool image_read(Image *image, const uint8_t *bytes, size_t size, char *error, size_t error_bytes)
{
    if (size >= 2 && bytes[0] == 'P' && (bytes[1] == '2' || bytes[1] == '5'))
        return read_pgm(image, bytes, size, error, error_bytes);
    if (size >= 4 && memcmp(bytes, "\x89PNG", 4) == 0)
        return image_read_png(image, bytes, size, error, error_bytes);
    snprintf(error, error_bytes, "it is neither PGM nor PNG");
    return false;
}

void image_free(Image *image)
{
    free(image->pixels);
    image->pixels = NULL;
}
