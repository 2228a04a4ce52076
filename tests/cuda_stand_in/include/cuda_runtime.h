/*
 * cuda_runtime.h - the language of kernels for a C++ compiler without CUDA: a kernel is a function,
 * and a launch queues a call of it for every thread of the grid (grid.c).
 */
#ifndef STAND_IN_CUDA_RUNTIME_H
#define STAND_IN_CUDA_RUNTIME_H

#include <math.h>
#include <string.h>

#include <algorithm>
#include <initializer_list>
#include <tuple>
#include <type_traits>

#include "kernel_launch.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
// In a separate section, so that every block finds it full of garbage, as on a GPU.
#define __shared__ static __attribute__((section("stand_in_shared")))

extern "C" {
extern char __start_stand_in_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_stand_in_shared[] __attribute__((weak, visibility("hidden")));
}

/* Returns the address that PTX uses for shared memory. */
static inline size_t __cvta_generic_to_shared(const void *pointer)
{
    return (size_t)((const char *)pointer - __start_stand_in_shared);
}

/* Waits a moment for another process (stand_in_pause). */
static inline void __nanosleep(unsigned nanoseconds)
{
    (void)nanoseconds;
    stand_in_pause();
}

static inline void __threadfence_system(void)
{
    __sync_synchronize();
}

#define __syncthreads() stand_in_barrier(__FILE__, __LINE__)

/* The stand-in's nvcc turns asm volatile("TEXT" : "+f"(x) : "r"(y)) into STAND_IN_ASM(...). */
#define STAND_IN_ASM(text, ...) stand_in_asm(__FILE__, __LINE__, text, { __VA_ARGS__ })

template <typename T>
static inline StandInOperand stand_in_operand(const char *constraint, const T &value)
{
    static_assert(sizeof value == 4, "the stand-in knows operands of 32 bits");
    return { constraint, (void *)&value };
}

static inline void stand_in_asm(const char *file, int line, const char *text,
                                std::initializer_list<StandInOperand> operands)
{
    const StandInPtx instruction = { text, operands.begin(), (int)operands.size() };
    stand_in_ptx(file, line, &instruction);
}

template <typename T>
static inline void stand_in_check(const char *kernel, int argument, const T &value,
                                  cudaStream_t stream)
{
    if constexpr (std::is_pointer_v<T>)
        stand_in_check_pointer(kernel, argument, (const void *)value, stream);
}

/* Copies the arguments, like a launch, and queues the call. */
template <typename... Parameters, typename... Arguments>
static inline void stand_in_start(const char *name, dim3 grid, dim3 block, cudaStream_t stream,
                                  void (*kernel)(Parameters...), Arguments... arguments)
{
    struct Call {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    };
    const Call call = { kernel, std::tuple<Parameters...>(arguments...) };
    int argument = 0;
    std::apply(
        [&](const auto &...value) { (stand_in_check(name, ++argument, value, stream), ...); },
        call.arguments);
    const auto thread = [](void *memory) {
        const Call *queued = (const Call *)memory;
        std::apply(queued->kernel, queued->arguments);
    };
    const StandInLaunch launch = {
        name, grid, block, thread, __start_stand_in_shared, __stop_stand_in_shared
    };
    stand_in_launch(&launch, &call, sizeof call, stream);
}

#define LAUNCH(kernel, grid, block, stream, ...) \
    do { \
        stand_in_start(#kernel, grid, block, stream, kernel, __VA_ARGS__); \
        cuda_check_launch(__FILE__, __LINE__, #kernel); \
    } while (0)

using std::max;
using std::min;

/* Needs no atomics, because one thread runs at a time. */
static inline unsigned atomicCAS(unsigned *address, unsigned expected, unsigned value)
{
    const unsigned old = *address;
    if (old == expected)
        *address = value;
    return old;
}

#endif
