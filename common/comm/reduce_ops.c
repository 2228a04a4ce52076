/* The arithmetic of all_reduce and its relatives.
 *
 * The same loops for each type, written by macros since C has no templates. They differ in the
 * conversions: bf16, the upper half of a float, is computed as a float and rounded to nearest even;
 * integers are added as unsigned, since signed overflow is undefined in C. */
#include "common/comm/backend.h"

static inline float from_bf16(uint16_t bits)
{
    const union {
        uint32_t bits;
        float value;
    } wide = { .bits = (uint32_t)bits << 16 };
    return wide.value;
}

static inline uint16_t to_bf16(float value)
{
    const union {
        float value;
        uint32_t bits;
    } wide = { .value = value };
    // A NaN stays one, because its lower half, made from bf16 numbers, is 0 and cannot carry.
    return (uint16_t)((wide.bits + 0x7fff + (wide.bits >> 16 & 1)) >> 16);
}

// The pragma allows vectorising although out may be one of the inputs.
#define FOR_EACH(expression) \
    _Pragma("omp simd") for (size_t i = 0; i < count; i++) to[i] = (expression)

/* NUMBER converts an element to compare or divide it, ADDEND to add it, ELEMENT converts back. */
#define REDUCE(Element, NUMBER, ADDEND, ELEMENT) \
    do { \
        const Element *x = a, *y = b; \
        Element *to = out; \
        if (op == REDUCE_MAX) \
            FOR_EACH(NUMBER(x[i]) > NUMBER(y[i]) ? x[i] : y[i]); \
        else if (op == REDUCE_MIN) \
            FOR_EACH(NUMBER(x[i]) < NUMBER(y[i]) ? x[i] : y[i]); \
        else \
            FOR_EACH(ELEMENT(ADDEND(x[i]) + ADDEND(y[i]))); \
    } while (0)

/* n as a float if it divides one. */
#define DIVISOR(number) _Generic((number), float : (float)n, default : n)
#define DIVIDE(Element, NUMBER, ADDEND, ELEMENT) \
    do { \
        Element *to = data; \
        FOR_EACH(ELEMENT(NUMBER(to[i]) / DIVISOR(NUMBER(to[i])))); \
    } while (0)

/* LOOP is one of the two above. */
#define FOR_TYPE(type, LOOP) \
    switch (type) { \
    case FLOAT32: \
        LOOP(float, , , ); \
        break; \
    case BFLOAT16: \
        LOOP(uint16_t, from_bf16, from_bf16, to_bf16); \
        break; \
    case FLOAT64: \
        LOOP(double, , , ); \
        break; \
    case INT32: \
        LOOP(int32_t, , (uint32_t), (int32_t)); \
        break; \
    case INT64: \
        LOOP(int64_t, , (uint64_t), (int64_t)); \
        break; \
    case UINT8: \
        LOOP(uint8_t, , , (uint8_t)); \
        break; \
    case NUM_DTYPES: \
        break; \
    }

void reduce_elements(void *out, const void *a, const void *b, size_t count, DType type, ReduceOp op)
{
    FOR_TYPE(type, REDUCE)
}

void reduce_finish(void *data, size_t count, DType type, ReduceOp op, int n)
{
    if (op == REDUCE_MEAN)
        FOR_TYPE(type, DIVIDE)
}
