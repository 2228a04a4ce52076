/*
 * In three steps: find the ink and the box around it; shrink (or enlarge) the box to 20 x 20, each
 * new pixel being the mean of the area that it covers; shift it by whole pixels, so that the centre
 * of mass is in the middle.
 */
#include "tools/model/mnist_form.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

enum { BOX = 20, FAINTEST = 8, BLACK = 64 };

/* The part of a picture that holds the digit; right and bottom are excluded. */
typedef struct {
    int left, top, right, bottom;
} Box;

/* Returns the median of the pixels along the edge. */
static int ground_of(const Image *image)
{
    int count[256] = { 0 }, total = 0;
    for (int y = 0; y < image->height; y++) {
        const bool whole = y == 0 || y == image->height - 1;
        const int step = whole || image->width == 1 ? 1 : image->width - 1;
        for (int x = 0; x < image->width; x += step, total++)
            count[image->pixels[(size_t)y * image->width + x]]++;
    }
    int value = 0;
    for (int below = count[0]; 2 * below < total; below += count[value])
        value++;
    return value;
}

/* Returns how much each pixel differs from the ground, [height][width]; NULL if none does. */
static uint8_t *find_ink(const Image *image, int ground)
{
    const size_t count = (size_t)image->width * image->height;
    int strongest = 0;
    for (size_t i = 0; i < count; i++)
        if (abs(image->pixels[i] - ground) > strongest)
            strongest = abs(image->pixels[i] - ground);
    if (strongest < 256 / FAINTEST) // paper is not uniform
        return NULL;

    uint8_t *ink = mem_calloc(count, 1);
    for (size_t i = 0; i < count; i++) {
        const int difference = abs(image->pixels[i] - ground);
        ink[i] = FAINTEST * difference < strongest ? 0 : (uint8_t)(255 * difference / strongest);
    }
    return ink;
}

static Box box_of(const uint8_t *ink, int width, int height)
{
    Box box = { width, height, 0, 0 };
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            if (ink[(size_t)y * width + x] > 0) {
                box.left = x < box.left ? x : box.left;
                box.right = x + 1 > box.right ? x + 1 : box.right;
                box.top = y < box.top ? y : box.top;
                box.bottom = y + 1;
            }
    return box;
}

/* Computes the mean ink of an area whose edges may cut pixels. */
static float mean_ink(const uint8_t *ink, int width, float left, float top, float right,
                      float bottom)
{
    float sum = 0, area = 0;
    for (int y = (int)top; y < bottom; y++) {
        const float rows = fminf(bottom, (float)y + 1) - fmaxf(top, (float)y);
        for (int x = (int)left; x < right; x++) {
            const float part = rows * (fminf(right, (float)x + 1) - fmaxf(left, (float)x));
            sum += part * ink[(size_t)y * width + x];
            area += part;
        }
    }
    return sum / area;
}

/* Returns the shift of the centre of mass to pixel 14, limited so that the digit stays inside. */
static int shift_of(double moment, double mass, int size)
{
    const int shift = (int)lround(MNIST_SIDE / 2 - moment / mass);
    const int most = MNIST_SIDE - size;
    return shift < 0 ? 0 : shift > most ? most : shift;
}

/* Writes the digit in the box to pixels, which must be black. */
static void place_digit(const uint8_t *ink, int width, Box box, uint8_t *pixels)
{
    const int box_width = box.right - box.left, box_height = box.bottom - box.top;
    const float scale = (float)(box_width > box_height ? box_width : box_height) / BOX;
    const int columns = (int)fmaxf(1, roundf((float)box_width / scale));
    const int rows = (int)fmaxf(1, roundf((float)box_height / scale));
    const float step_x = (float)box_width / (float)columns;
    const float step_y = (float)box_height / (float)rows;

    float small[BOX][BOX], strongest = 0;
    double mass = 0, moment_x = 0, moment_y = 0;
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < columns; x++) {
            const float left = (float)box.left + (float)x * step_x;
            const float top = (float)box.top + (float)y * step_y;
            const float value = mean_ink(ink, width, left, top, fminf(left + step_x, box.right),
                                         fminf(top + step_y, box.bottom));
            small[y][x] = value;
            strongest = fmaxf(strongest, value);
            mass += value;
            moment_x += value * x;
            moment_y += value * y;
        }

    const int left = shift_of(moment_x, mass, columns), top = shift_of(moment_y, mass, rows);
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < columns; x++)
            pixels[(top + y) * MNIST_SIDE + left + x] =
                (uint8_t)lroundf(255 * small[y][x] / strongest);
}

bool mnist_form(const Image *image, uint8_t pixels[MNIST_PIXELS])
{
    const int ground = ground_of(image);
    uint8_t *ink = find_ink(image, ground);
    if (ink == NULL)
        return false;
    memset(pixels, 0, MNIST_PIXELS);
    if (image->width == MNIST_SIDE && image->height == MNIST_SIDE && ground < BLACK)
        memcpy(pixels, image->pixels, MNIST_PIXELS);
    else
        place_digit(ink, image->width, box_of(ink, image->width, image->height), pixels);
    free(ink);
    return true;
}
