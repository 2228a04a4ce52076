/* stand_in_kernels.h - small right and wrong kernels to test the stand-in of CUDA. */
#ifndef TESTS_CUDA_STAND_IN_KERNELS_H
#define TESTS_CUDA_STAND_IN_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { THREADS = 128, TILE = 16 };

void launch_saxpy(int n, float a, const float *x, float *y, int block, cudaStream_t stream);
/* y[columns][rows] = the transpose of x[rows][columns]. */
void launch_transpose(int rows, int columns, const float *x, float *y, cudaStream_t stream);
/* sums[block] = the sum of its THREADS of x. */
void launch_sum(int blocks, const float *x, float *sums, cudaStream_t stream);

void launch_sum_without_barrier(int blocks, const float *x, float *sums, cudaStream_t stream);
/* y[i] = the sum of x[i] and its neighbours from the last round, in a ring, ROUNDS times. */
enum { ROUNDS = 3 };
void launch_rounds(const float *x, float *y, bool barrier_after_read, cudaStream_t stream);
void launch_half_barrier(float *y, cudaStream_t stream); // one half of the block has no barrier
void launch_two_barriers(float *y, cudaStream_t stream); // each half has its own barrier
void launch_read_at(const float *x, long i, float *y, cudaStream_t stream); // y[0] = x[i]
void launch_write_at(float *y, long i, cudaStream_t stream);
void launch_read_four_at(const float *x, int i, float *y, cudaStream_t stream); // as one vector
void launch_read_product(const float *x, int i, int j, float *y, cudaStream_t stream); // x[i * j]

/* For each warp of a block: c[16][8] += a[16][depth] b[8][depth]^T; a and b are fp16 or bf16, two
 * numbers per word. */
void launch_mma(int threads, int depth, bool bf16, const unsigned *a, const unsigned *b, float *c,
                cudaStream_t stream);
/* sums[thread] = 8 times the number, from 1 on, of the warp after the thread's, of four. */
void launch_mma_in_turn(float *sums, cudaStream_t stream);
void launch_half_mma(float *c, cudaStream_t stream); // without half of each warp
void launch_wrong_mma(bool operands, float *c, cudaStream_t stream); // or a wrong instruction

#ifdef __cplusplus
}
#endif

#endif
