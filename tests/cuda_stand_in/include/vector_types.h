/* vector_types.h - the small vector types that kernels use, as in CUDA. */
#ifndef STAND_IN_VECTOR_TYPES_H
#define STAND_IN_VECTOR_TYPES_H

#define STAND_IN_VECTORS(type, name, align) \
    typedef struct { \
        type x; \
    } name##1; \
    typedef struct { \
        type x, y; \
    } __attribute__((aligned(2 * (align)))) name##2; \
    typedef struct { \
        type x, y, z; \
    } name##3; \
    typedef struct { \
        type x, y, z, w; \
    } __attribute__((aligned(4 * (align)))) name##4;

STAND_IN_VECTORS(signed char, char, 1)
STAND_IN_VECTORS(unsigned char, uchar, 1)
STAND_IN_VECTORS(short, short, 2)
STAND_IN_VECTORS(unsigned short, ushort, 2)
STAND_IN_VECTORS(int, int, 4)
STAND_IN_VECTORS(unsigned, uint, 4)
STAND_IN_VECTORS(float, float, 4)

typedef struct {
    double x, y;
} __attribute__((aligned(16))) double2;

#ifdef __cplusplus
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};
#else
typedef struct {
    unsigned x, y, z;
} dim3;
#endif

#endif
