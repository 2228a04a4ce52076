/* Channels first to channels last and back: a transposition of each row, one row at a time. */
#include "common/nn/layout.h"

#include <stdlib.h>

#include "common/base/memory.h"

/* From [rows][columns] to [columns][rows]. Read across and written along, since a store across
 * takes a cache line from memory and back for each number. */
static void transpose(size_t rows, size_t columns, const float *restrict from, float *restrict to)
{
    for (size_t column = 0; column < columns; column++)
        for (size_t row = 0; row < rows; row++)
            to[column * rows + row] = from[row * columns + column];
}

void layout_import(Device *device, const Tensor *tensor, int channels, const float *host,
                   float *array)
{
    if (channels == 1) {
        device_copy(device, array, host, tensor->numel * sizeof *array, COPY_TO_DEVICE);
        return;
    }
    const size_t numel = tensor->numel / tensor->shape[0];
    float *row = mem_calloc(numel, sizeof *row);
    for (size_t i = 0; i < tensor->numel; i += numel) {
        transpose(channels, numel / channels, host + i, row);
        device_copy(device, array + i, row, numel * sizeof *row, COPY_TO_DEVICE);
    }
    free(row);
}

void layout_export(Device *device, const Tensor *tensor, int channels, const float *array,
                   float *host)
{
    if (channels == 1) {
        device_copy(device, host, array, tensor->numel * sizeof *array, COPY_TO_HOST);
        return;
    }
    const size_t numel = tensor->numel / tensor->shape[0];
    float *row = mem_calloc(numel, sizeof *row);
    for (size_t i = 0; i < tensor->numel; i += numel) {
        device_copy(device, row, array + i, numel * sizeof *row, COPY_TO_HOST);
        transpose(numel / channels, channels, row, host + i);
    }
    free(row);
}
