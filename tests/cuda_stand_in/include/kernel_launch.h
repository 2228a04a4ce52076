/* kernel_launch.h - shared by kernels in C++ (cuda_runtime.h) and their executor (grid.c). */
#ifndef STAND_IN_KERNEL_LAUNCH_H
#define STAND_IN_KERNEL_LAUNCH_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

typedef struct {
    const char *name; // the kernel's name
    dim3 grid, block;
    void (*thread)(void *arguments); // runs one thread
    char *shared_begin, *shared_end; // where the program's __shared__ arrays are
} StandInLaunch;

/* Queues a launch with a copy of its arguments. */
void stand_in_launch(const StandInLaunch *launch, const void *arguments, size_t bytes,
                     cudaStream_t stream);

/* Dies if a kernel on this stream could not follow the pointer. */
void stand_in_check_pointer(const char *kernel, int argument, const void *pointer,
                            cudaStream_t stream);

void stand_in_barrier(const char *file, int line);

/* Waits a moment for memory that another process writes. Dies after many such waits. */
void stand_in_pause(void);

/* Copies into shared memory: start one of 4, 8 or 16 bytes, commit those started so far as a group,
 * wait for all of this thread's groups except the newest ones. */
void stand_in_copy_async(void *to, const void *from, size_t bytes);
void stand_in_copy_commit(void);
void stand_in_copy_wait(int newest);

/* An instruction in asm as one thread executes it: operands[i] points to operand %i, which has its
 * constraint. All are 32 bits wide. */
typedef struct {
    const char *constraint;
    void *value;
} StandInOperand;

typedef struct {
    const char *text;
    const StandInOperand *operands;
    int num_operands;
} StandInPtx;

/* Waits until the thread's whole warp is at this line and has executed it. */
void stand_in_ptx(const char *file, int line, const StandInPtx *instruction);

#ifdef __cplusplus
}
#endif

#endif
