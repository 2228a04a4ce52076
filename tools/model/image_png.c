/*
 * PNG by libpng's simplified interface: it converts the contents of any file (colours, palettes, 16
 * bits, transparency) to grey bytes, and returns errors where the older one would call longjmp.
 */
#include <png.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "tools/model/image.h"

bool image_read_png(Image *image, const uint8_t *bytes, size_t size, char *error,
                    size_t error_bytes)
{
    png_image png = { .version = PNG_IMAGE_VERSION };
    if (!png_image_begin_read_from_memory(&png, bytes, size)) {
        snprintf(error, error_bytes, "it is damaged PNG: %s", png.message);
        return false;
    }
    if (png.width > IMAGE_MAX_SIDE || png.height > IMAGE_MAX_SIDE) {
        snprintf(error, error_bytes, "it has %u x %u pixels, the sides must not exceed %d",
                 png.width, png.height, IMAGE_MAX_SIDE);
        png_image_free(&png);
        return false;
    }

    png.format = PNG_FORMAT_GA;
    const size_t count = (size_t)png.width * png.height;
    uint8_t(*grey_alpha)[2] = mem_calloc(count, sizeof *grey_alpha);
    const bool read = png_image_finish_read(&png, NULL, grey_alpha, 0, NULL); // frees png, too
    if (read) {
        *image = (Image){ (int)png.width, (int)png.height, mem_calloc(count, 1) };
        // Blends with white as browsers and viewers do, in bytes; libpng itself would blend linear
        // light.
        for (size_t i = 0; i < count; i++) {
            const int alpha = grey_alpha[i][1];
            image->pixels[i] =
                (uint8_t)((grey_alpha[i][0] * alpha + 255 * (255 - alpha) + 127) / 255);
        }
    } else {
        snprintf(error, error_bytes, "it is damaged PNG: %s", png.message);
    }
    free(grey_alpha);
    return read;
}
