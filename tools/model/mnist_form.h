/* mnist_form.h - converts a picture of a digit to the form of MNIST's images. */
#ifndef TOOLS_MODEL_MNIST_FORM_H
#define TOOLS_MODEL_MNIST_FORM_H

#include "tools/model/image.h"

enum { MNIST_SIDE = 28, MNIST_PIXELS = MNIST_SIDE * MNIST_SIDE };

/* Writes the input of a model trained on MNIST: 28 x 28 pixels, white ink on black; the digit fills
 * a box of 20 x 20, its shape kept, and its centre of mass is in pixel (14, 14), counted from 0.
 *
 * The ground (background) is the median of the pixels on the picture's edge, and pixels that differ
 * from it are ink, lighter or darker; the strongest ink becomes 255, and anything below an eighth
 * of that is ground. A picture of 28 x 28 on a black ground is used as it is, so that MNIST's own
 * images do not change. False if there is no ink.
 *
 * Source: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document
 * recognition", 1998, section III A. */
bool mnist_form(const Image *image, uint8_t pixels[MNIST_PIXELS]);

#endif
