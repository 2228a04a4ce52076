/*
 * Every device keeps the channels of a pixel side by side, and so those of a filter: then a line of
 * the window under a filter is contiguous. PyTorch keeps a channel's pixels side by side.
 */
#include "common/nn/layout.h"

/* Transposes each of `count` matrices: [rows][columns] to [columns][rows]. They are read across and
 * written along, since a store across takes a cache line from memory and back for each number. */
static void transpose(size_t count, size_t rows, size_t columns, const float *restrict from,
                      float *restrict to)
{
    const size_t numel = rows * columns;
    for (size_t i = 0; i < count; i++, from += numel, to += numel)
        for (size_t column = 0; column < columns; column++)
            for (size_t row = 0; row < rows; row++)
                to[column * rows + row] = from[row * columns + column];
}

static size_t row_pixels(const Tensor *tensor, int channels)
{
    return tensor->numel / tensor->shape[0] / (size_t)channels;
}

void layout_import(const Tensor *tensor, int channels, const float *pytorch, float *ours)
{
    transpose(tensor->shape[0], channels, row_pixels(tensor, channels), pytorch, ours);
}

void layout_export(const Tensor *tensor, int channels, const float *ours, float *pytorch)
{
    transpose(tensor->shape[0], row_pixels(tensor, channels), channels, ours, pytorch);
}
