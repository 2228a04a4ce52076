/*
 * library.h - functions of shared libraries that are opened at their first call, not at start-up.
 *
 * cuBLAS and NCCL are 900 MB of libraries: linking with them costs 0.1 s and 200 MB at every start,
 * and a program that does not even start on a node without them. So a binary built with CUDA is a
 * good binary on any node, and who asks for a GPU where a library is missing is told so.
 */
#ifndef COMMON_BASE_LIBRARY_H
#define COMMON_BASE_LIBRARY_H

/* The address of a function in e.g. "libcublas.so.13". Dies, saying what `needed_by` the user asked
 * for and what to do, where there is no such library or function. The library stays open. */
void *library_function(const char *library, const char *function, const char *needed_by);

/* Defines a function of the library under its own name, with the parameters its header declares;
 * LIBRARY and NEEDED_BY are the file's own. */
#define LIBRARY_FUNCTION(type, name, parameters, arguments) \
    type name parameters \
    { \
        static __typeof__(name) *function; \
        if (function == NULL) \
            function = \
                (__typeof__(name) *)library_function(LIBRARY, LIBRARY_TEXT(name), NEEDED_BY); \
        return function arguments; \
    }
#define LIBRARY_TEXT(name) LIBRARY_TEXT_OF(name) // of what the header's macros make of the name
#define LIBRARY_TEXT_OF(name) #name

#endif
