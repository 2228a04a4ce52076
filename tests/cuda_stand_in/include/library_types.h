/* library_types.h - the element types of cuBLAS's matrices. */
#ifndef STAND_IN_LIBRARY_TYPES_H
#define STAND_IN_LIBRARY_TYPES_H

typedef enum { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 } cudaDataType_t;
typedef cudaDataType_t cudaDataType;

#endif
