/* malloc aligns to 16 bytes; vector instructions and cache lines want 64. */
#include "common/base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"

#define LARGE_BYTES (64u << 20) // smallest size for which a check pays

bool mem_fits(size_t bytes, size_t *available)
{
    *available = bytes;
    FILE *file = bytes >= LARGE_BYTES ? fopen("/proc/meminfo", "r") : NULL;
    if (file == NULL)
        return true;
    size_t total = 0, unused = 0, swap = 0; // KiB
    for (char line[128]; fgets(line, sizeof line, file) != NULL;) {
        sscanf(line, "MemTotal: %zu", &total);
        sscanf(line, "MemAvailable: %zu", &unused);
        sscanf(line, "SwapFree: %zu", &swap);
    }
    fclose(file);
    const size_t reserve = total / 16; // for use that is not reserved in advance
    if (unused > 0)
        *available = unused + swap > reserve ? (unused + swap - reserve) * 1024 : 0;
    return bytes <= *available;
}

void *mem_alloc(size_t count, size_t size)
{
    size_t bytes = 0;
    CHECK(!__builtin_mul_overflow(count, size, &bytes) && bytes < PTRDIFF_MAX,
          "%zu elements of %zu bytes do not fit into memory", count, size);

    bytes = bytes > 0 ? (bytes + 63) / 64 * 64 : 64; // aligned_alloc requires multiples of 64
    size_t available = 0;
    CHECK(mem_fits(bytes, &available),
          "out of memory: %zu bytes wanted, this machine has %zu to give", bytes, available);
    void *memory = aligned_alloc(64, bytes);
    CHECK(memory != NULL, "out of memory: %zu bytes wanted", bytes);
    return memory;
}

void *mem_calloc(size_t count, size_t size)
{
    return memset(mem_alloc(count, size), 0, count * size);
}

// In the order of DType.
static const size_t dtype_sizes[NUM_DTYPES] = { 4, 2, 8, 4, 8, 1 };
static const char *const dtype_names[NUM_DTYPES] = { "float32", "bfloat16", "float64",
                                                     "int32",   "int64",    "uint8" };

size_t dtype_size(DType type)
{
    return dtype_sizes[type];
}

const char *dtype_name(DType type)
{
    return dtype_names[type];
}
