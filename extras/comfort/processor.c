/*
 * Before main: checks that this processor can run the program at all.
 *
 * A program is built for one kind of processor (MARCH in the Makefile), and an older one would die
 * of SIGILL in the middle of some loop, which explains nothing. So the extensions that the compiler
 * was allowed to use are compared with those present. This file must not use them itself, so it
 * leaves its work to the C library, which selects code at run time. On other architectures nothing
 * is checked: MARCH is trusted.
 */
#ifdef __x86_64__

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The Makefile passes it to the linker (-u), which would otherwise leave this file out. */
void processor_check(void);

/* A macro set by the compiler expands to 1; one that is not set stays its own name. */
#define TEXT(macro) #macro
#define BUILT_WITH(macro) (TEXT(macro)[0] == '1')
#define NEEDS(macro, feature) \
    if (BUILT_WITH(macro) && !__builtin_cpu_supports(feature)) \
    refuse(feature)

static void refuse(const char *feature)
{
    dprintf(STDERR_FILENO,
            "%s: fatal: built for processors with %s, which this one does not have: build it here, "
            "or for both with make MARCH=%s\n",
            program_invocation_short_name, feature,
            __builtin_cpu_supports("avx2") ? "x86-64-v3" : "x86-64");
    _exit(EXIT_FAILURE);
}

__attribute__((constructor)) void processor_check(void)
{
    __builtin_cpu_init();
    NEEDS(__SSE4_2__, "sse4.2");
    NEEDS(__POPCNT__, "popcnt");
    NEEDS(__AVX__, "avx");
    NEEDS(__AVX2__, "avx2");
    NEEDS(__FMA__, "fma");
    NEEDS(__BMI2__, "bmi2");
    NEEDS(__AVX512F__, "avx512f");
    NEEDS(__AVX512CD__, "avx512cd");
    NEEDS(__AVX512BW__, "avx512bw");
    NEEDS(__AVX512DQ__, "avx512dq");
    NEEDS(__AVX512VL__, "avx512vl");
    NEEDS(__AVX512IFMA__, "avx512ifma");
    NEEDS(__AVX512VBMI__, "avx512vbmi");
    NEEDS(__AVX512VBMI2__, "avx512vbmi2");
    NEEDS(__AVX512VNNI__, "avx512vnni");
    NEEDS(__AVX512BITALG__, "avx512bitalg");
    NEEDS(__AVX512VPOPCNTDQ__, "avx512vpopcntdq");
    NEEDS(__AVX512BF16__, "avx512bf16");
}

#endif
