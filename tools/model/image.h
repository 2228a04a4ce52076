/*
 * image.h - a grey picture of any size, from the bytes of a PGM or PNG file.
 *
 * Sources: the manual page pgm(5) of Netpbm; PNG is read by libpng.
 */
#ifndef TOOLS_MODEL_IMAGE_H
#define TOOLS_MODEL_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IMAGE_MAX_SIDE = 4096 }; // pixels; a header may claim more than memory holds

typedef struct {
    int width, height;
    uint8_t *pixels; // [height][width], 0 is black
} Image;

/* Reads an untrusted file, PGM (plain or raw, 8 or 16 bits) or PNG (any kind; colours become grey,
 * transparent parts white). Returns false, with one line in error and nothing to free, if the bytes
 * are neither, are damaged or cut off, or hold a picture larger than IMAGE_MAX_SIDE squared. */
bool image_read(Image *image, const uint8_t *bytes, size_t size, char *error, size_t error_bytes);
void image_free(Image *image);

/* image_read for PNG: in image_png.c, or in model_no_png.c in builds without libpng. */
bool image_read_png(Image *image, const uint8_t *bytes, size_t size, char *error,
                    size_t error_bytes);

#endif
