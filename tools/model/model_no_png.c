/* Stands in for image_png.c in builds without libpng. */
#include <stdio.h>

#include "tools/model/image.h"

bool image_read_png(Image *image, const uint8_t *bytes, size_t size, char *error,
                    size_t error_bytes)
{
    (void)image, (void)bytes, (void)size;
    snprintf(error, error_bytes,
             "it is PNG, and this build reads PGM only: it was made without libpng");
    return false;
}
