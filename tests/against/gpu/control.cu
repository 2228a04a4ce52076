/*
 * Usage: control memcheck|racecheck|initcheck|synccheck
 *
 * A kernel with the fault that this tool of compute-sanitizer looks for: a tool that does not report it,
 * under the filter of the other kernels, does not look at those either.
 */
#include <stdio.h>
#include <string.h>

#include "common/nn/cuda/cuda_launch.h"

enum { CONTROL_THREADS = 64 };

static __global__ void control_memcheck(int *numbers)
{
    numbers[threadIdx.x] = 0; // by one thread too many
}

static __global__ void control_racecheck(int *numbers)
{
    __shared__ int shared[CONTROL_THREADS];
    shared[threadIdx.x] = threadIdx.x;
    numbers[threadIdx.x] = shared[CONTROL_THREADS - 1 - threadIdx.x]; // missing a barrier
}

static __global__ void control_initcheck(int *numbers)
{
    numbers[threadIdx.x] += 1; // reads memory that was never written
}

static __global__ void control_synccheck(int *numbers)
{
    if (threadIdx.x < CONTROL_THREADS / 2)
        __syncthreads(); // only half of the block comes here
    numbers[threadIdx.x] = 0;
}

int main(int argc, char **argv)
{
    const char *tool = argc == 2 ? argv[1] : "";
    int *numbers;
    CUDA_CHECK(cudaMalloc((void **)&numbers, CONTROL_THREADS * sizeof *numbers));
    if (strcmp(tool, "memcheck") == 0)
        LAUNCH(control_memcheck, 1, CONTROL_THREADS + 1, NULL, numbers);
    else if (strcmp(tool, "racecheck") == 0)
        LAUNCH(control_racecheck, 1, CONTROL_THREADS, NULL, numbers);
    else if (strcmp(tool, "initcheck") == 0)
        LAUNCH(control_initcheck, 1, CONTROL_THREADS, NULL, numbers);
    else if (strcmp(tool, "synccheck") == 0)
        LAUNCH(control_synccheck, 1, CONTROL_THREADS, NULL, numbers);
    else
        return 2;
    return cudaDeviceSynchronize() != cudaSuccess;
}
