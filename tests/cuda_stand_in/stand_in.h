/*
 * stand_in.h - CUDA without a GPU, for tests: shared by the files of the stand-in.
 *
 * It compiles the project's CUDA sources as they are and runs them on the CPU: kernels, streams,
 * graphs, the few calls of cuBLAS and cuDNN, and those of NCCL (nccl.c).
 * `tests/cuda_stand_in/toolkit.sh DIR` makes a folder that looks like a CUDA toolkit, and `make
 * CUDA_HOME=DIR` uses it as one. It is designed to find faults:
 *
 * - Nothing queued is done before a thread waits for it, and then work of several streams is done
 *   in random order (CUDA_STAND_IN_SEED=N picks another), constrained by streams and events only.
 *   So a missing wait, for an event or before the host reads or overwrites pinned memory, shows as
 *   a wrong number, not once in a thousand runs. Copies from other host memory read it at once and
 *   copies to it wait, as in CUDA.
 * - Device memory faults when the host touches it, and pages around each array when a kernel does;
 * it is NaN before it is written, and never used again after cudaFree. What kernels write behind an
 *   array's last byte is noticed after the kernel. Host memory handed to a kernel, or memory of
 *   another GPU, is refused, and so is the wrong kind of copy.
 * - A kernel that accesses a vector at an address that is no multiple of its size ends the program;
 *   so does one whose index of type int overflows, or leaves an array of a known size.
 * - The threads of a block run one after the other from barrier to barrier, in an order that
 *   differs at each: reading shared memory before it is written, or writing it before others have
 *   read it, gives wrong numbers. __shared__ arrays begin as NaN in every block (but those of
 *   templates). A barrier that not all threads of a block reach ends the program.
 * - Of PTX in asm it knows mma.sync and ldmatrix (ptx.c): the sources' own text and operands are
 *   executed, by all threads of a warp together. An instruction that it does not know, operands of
 *   another number or type, and an incomplete warp end the program.
 * - Asynchronous copies into shared memory (cuda_pipeline_primitives.h) happen at once or when the
 *   thread waits for them, at random: a missing wait, and a copy into what others still read, show.
 * - Its clock is not the host's: it is set to another time and goes faster, by 5 ms a second.
 *   Events have its time, graphs apart; work takes as long as it takes the CPU.
 * - While a graph is captured nothing runs; calls that CUDA refuses then are refused. A launch
 *   replays the captured work with the arguments it had.
 * - Processes share device memory by CUDA IPC (ipc.c). What is freed while another process has it
 *   open, and what a GPU touches that has not opened it, ends the program. Blocks run one after the
 *   other: a block may wait only for the same block of the same launch in another process, and by
 *   __nanosleep, for at most CUDA_STAND_IN_PAUSE_SECONDS=N (60).
 * - A process that used it before fork cannot use it after. Contexts are counted: any call before
 *   its cudaSetDevice gives a thread one on GPU 0.
 *
 * Misuse ends the program with a line on stderr and SIGABRT; what CUDA reports as an error is
 * returned as one. It does not find: races that need two threads of a warp within one instruction,
 * bank conflicts or anything else about speed, a difference in the last bits between the host's
 * mathematical functions and the GPU's, what cuBLAS and the driver do wrong, pointers to host
 * memory inside structs. For those there is `make check-gpu`.
 *
 * CUDA_STAND_IN_DEVICES=N pretends N GPUs (1), CUDA_STAND_IN_MIB=N sets the memory of each
 * (16,384); CUDA_VISIBLE_DEVICES picks some of them, by number; CUDA_STAND_IN_DRIVER=12020 pretends
 * a driver for CUDA 12.2. CUDA_STAND_IN_QUERY_SECONDS=N: the first cudaEventQuery takes N seconds,
 * as if it waited for a library that another thread loads; with -1 none ever returns, as on a lost
 * GPU. CUDA_STAND_IN_L2_MIB=N sets the size of the L2 cache (48). CUDA_STAND_IN_LAUNCHES=FILE: at
 * its end a process appends to it how many kernels its GPUs have done. CUDA_STAND_IN_LOAD=222: no
 * kernel can be loaded, and every launch fails with that error.
 */
#ifndef TESTS_CUDA_STAND_IN_H
#define TESTS_CUDA_STAND_IN_H

#include <stdbool.h>
#include <stdint.h>

#include "counts.h"
#include "include/cuda_runtime_api.h"
#include "include/kernel_launch.h"

enum { MAX_GPUS = 8 };

/* Prints a line and aborts. */
_Noreturn void stand_in_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns the error, which cudaGetLastError then returns too. */
cudaError_t stand_in_error(cudaError_t error);

/* Takes the one lock in every call, and releases it at the end of the block. */
#define LOCKED __attribute__((cleanup(stand_in_unlock), unused)) const bool locked = stand_in_lock()
bool stand_in_lock(void);
void stand_in_unlock(const bool *locked);
void stand_in_rest(void); // lets others have the lock, and the CPU, for a moment

/* Returns an error if this call must be refused: in a process after fork, or without the device.
 * With open, the calling thread's device gets a context, as in any call except queries. */
cudaError_t stand_in_find(void);
cudaError_t stand_in_open(void);
int stand_in_device(void); // the calling thread's device
int stand_in_gpu(int device); // the machine's number of the GPU (-1 if there is none)
size_t stand_in_gpu_bytes(void); // memory of each GPU

extern StandInCounts stand_in_count; // to be changed under the lock

/* Returns a random number from the seed's sequence. */
unsigned stand_in_random(unsigned below);

/* memory.c */
typedef enum { MEMORY_PAGEABLE, MEMORY_PINNED, MEMORY_DEVICE } MemoryKind;
typedef struct {
    MemoryKind kind;
    int device;
    int opened_by; // see Array in arrays.h
    const char *begin;
    size_t bytes;
} MemoryRange;
/* Returns the memory at an address; unknown memory is pageable, with unknown size. */
MemoryRange stand_in_memory(const void *address);
/* Dies unless [address, address + bytes) lies in one array on the device. */
void stand_in_check_range(const char *what, int device, const void *address, size_t bytes);
/* Allows this process access to a device's memory until close, for the named work. */
void stand_in_memory_open(int device, const char *work);
void stand_in_memory_close(void);
void stand_in_memory_check(const char *work); // dies if it wrote between the arrays

/* ipc.c: called before a piece of work and at a barrier. */
void stand_in_drift(void);

/* hangs.c: called first by cudaEventQuery, without the lock. */
void stand_in_hang(void);

/* ptx.c: executes the instruction of the 32 threads of a warp. */
void stand_in_execute(const StandInLaunch *launch, const StandInPtx lanes[32]);

/* copy_async.c: called when a block begins, so no thread has started a copy yet. */
void stand_in_copies_begin(const StandInLaunch *launch);

/* streams.c: work is a function and a copy of its arguments. */
typedef struct {
    const char *name;
    void (*run)(void *arguments);
    bool (*ready)(void *arguments); // NULL if ready at once; else awaits a thread or process
    void (*drop)(void *arguments); // NULL, or called when a graph that holds it is destroyed
    const void *arguments;
    size_t bytes;
} Work;
void stand_in_push(cudaStream_t stream, const Work *work);
int stand_in_stream_device(cudaStream_t stream); // dies if there is no such stream
bool stand_in_stream_captures(cudaStream_t stream);
void stand_in_finish_stream(cudaStream_t stream);
void stand_in_finish_device(int device);
bool stand_in_capturing(void); // true if a capture forbids this thread to wait or allocate

#endif
