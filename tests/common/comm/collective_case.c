/*
 * A call's arrays: every rank knows all the others' inputs, and so the expected result.
 *
 * Inputs are small whole numbers, so that one plain loop gives the exact result in every type, and
 * behind each array lie bytes that no call may touch.
 */
#include "tests/common/comm/collective_case.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define GUARD_BYTES 64 // behind each array, must not change
#define GUARD 0xa5
#define PERIOD ((size_t)50) // elements after which inputs, and so results, repeat

const CaseMemory *case_memory;

noreturn void case_fail(const Case *c, size_t i, double got, double expected)
{
    die("%s of %zu %s (op %d, root %d, %s): element %zu is %.17g, not %.17g", c->name, c->count,
        dtype_name(c->type), c->op, c->root, c->async ? "async" : "blocking", i, got, expected);
}

/* Rounds to bf16 by definition: 8 significant bits, ties to even. */
static double round_to_bf16(double value)
{
    int exponent;
    const double mantissa = frexp(value, &exponent);
    return ldexp(nearbyint(ldexp(mantissa, 8)), exponent - 8);
}

void element_put(void *array, DType type, size_t i, double value)
{
    float narrow;
    uint32_t bits;
    switch (type) {
    case FLOAT32:
        ((float *)array)[i] = (float)value;
        break;
    case BFLOAT16:
        narrow = (float)round_to_bf16(value);
        memcpy(&bits, &narrow, sizeof bits);
        ((uint16_t *)array)[i] = (uint16_t)(bits >> 16);
        break;
    case FLOAT64:
        ((double *)array)[i] = value;
        break;
    case INT32:
        ((int32_t *)array)[i] = (int32_t)value;
        break;
    case INT64:
        ((int64_t *)array)[i] = (int64_t)value;
        break;
    default:
        ((uint8_t *)array)[i] = (uint8_t)value;
    }
}

double element_get(const void *array, DType type, size_t i)
{
    float narrow;
    uint32_t bits;
    switch (type) {
    case FLOAT32:
        return ((const float *)array)[i];
    case BFLOAT16:
        bits = (uint32_t)((const uint16_t *)array)[i] << 16;
        memcpy(&narrow, &bits, sizeof narrow);
        return narrow;
    case FLOAT64:
        return ((const double *)array)[i];
    case INT32:
        return ((const int32_t *)array)[i];
    case INT64:
        return (double)((const int64_t *)array)[i];
    default:
        return ((const uint8_t *)array)[i];
    }
}

/* Returns rank's input at i: integers so small that every type adds five ranks' exactly. */
static double input(const Case *c, int rank, size_t i)
{
    const int value = (int)((i * 7 + (size_t)rank * 31 + (size_t)c->salt * 13) % 50);
    return c->type == UINT8 ? value : value - 25;
}

static double reduced(const Case *c, size_t i)
{
    double result = input(c, 0, i);
    for (int rank = 1; rank < c->pg->world_size; rank++) {
        const double value = input(c, rank, i);
        if (c->op == REDUCE_MAX)
            result = fmax(result, value);
        else if (c->op == REDUCE_MIN)
            result = fmin(result, value);
        else
            result += value;
    }
    if (c->op == REDUCE_MEAN)
        result /= c->pg->world_size;
    const bool integer = c->type == INT32 || c->type == INT64 || c->type == UINT8;
    if (integer)
        return trunc(result);
    return c->type == BFLOAT16  ? round_to_bf16(result)
           : c->type == FLOAT32 ? (float)result
                                : result;
}

void *array_new(const Case *c, size_t shares)
{
    const size_t numel = shares * c->count, bytes = numel * dtype_size(c->type);
    unsigned char *array = mem_alloc(bytes + GUARD_BYTES, 1);
    memset(array + bytes, GUARD, GUARD_BYTES);
    for (size_t i = 0; i < numel && i < PERIOD; i++)
        element_put(array, c->type, i, input(c, c->pg->rank, i));
    const size_t period = PERIOD * dtype_size(c->type);
    for (size_t done = period; done < bytes; done *= 2)
        memcpy(array + done, array, done < bytes - done ? done : bytes - done);
    if (case_memory == NULL)
        return array;
    void *elsewhere = case_memory->new (array, bytes + GUARD_BYTES);
    free(array);
    return elsewhere;
}

/* Returns the array, or a copy of it in host memory; array_release it. */
static const void *array_read(const void *array, size_t bytes)
{
    if (case_memory == NULL)
        return array;
    void *copy = mem_alloc(bytes, 1);
    case_memory->read(copy, array, bytes);
    return copy;
}

static void array_release(const void *array)
{
    if (case_memory != NULL)
        free((void *)array);
}

/* Returns how many of numel elements have to be compared: all, or if the others repeat the first
 * ones, these alone. */
static size_t different(const Case *c, const void *array, size_t numel)
{
    const size_t size = dtype_size(c->type);
    if (numel <= PERIOD)
        return numel;
    const bool repeats =
        memcmp((const char *)array + PERIOD * size, array, (numel - PERIOD) * size) == 0;
    return repeats ? PERIOD : numel;
}

void expect_input(const Case *c, const void *data, size_t from, size_t numel, int rank, size_t at)
{
    const size_t size = dtype_size(c->type);
    const void *array = array_read(data, (from + numel) * size);
    const size_t end = from + different(c, (const char *)array + from * size, numel);
    for (size_t i = from; i < end; i++)
        if (element_get(array, c->type, i) != input(c, rank, at + i - from))
            case_fail(c, i, element_get(array, c->type, i), input(c, rank, at + i - from));
    array_release(array);
}

void expect_reduced(const Case *c, const void *data, size_t at)
{
    const void *array = array_read(data, c->count * dtype_size(c->type));
    const size_t end = different(c, array, c->count);
    for (size_t i = 0; i < end; i++)
        if (element_get(array, c->type, i) != reduced(c, at + i))
            case_fail(c, i, element_get(array, c->type, i), reduced(c, at + i));
    array_release(array);
}

void array_free(const Case *c, void *array, size_t shares)
{
    const size_t bytes = shares * c->count * dtype_size(c->type);
    const unsigned char *copy = array_read(array, bytes + GUARD_BYTES);
    for (int i = 0; i < GUARD_BYTES; i++)
        CHECK(copy[bytes + (size_t)i] == GUARD, "%s of %zu %s wrote beyond its array", c->name,
              c->count, dtype_name(c->type));
    array_release(copy);
    (case_memory != NULL ? case_memory->free : free)(array);
}
