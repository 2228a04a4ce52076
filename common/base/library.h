/*
 * library.h - shared libraries that are opened at the first call, not at start-up.
 *
 * cuBLAS and NCCL are 900 MB of libraries: linking with them costs 0.1 s and 200 MB at every start,
 * and the program would not even start on a node without them. Opened lazily, a binary built with
 * CUDA runs on any node; asking for a GPU where a library is missing ends with a line.
 */
#ifndef COMMON_BASE_LIBRARY_H
#define COMMON_BASE_LIBRARY_H

#include <dlfcn.h>

#include "common/base/log.h"

/* The address of a function in e.g. "libcublas.so.13". Where library or function is missing, dies,
 * naming the option that needs it (`needed_by`) and what to do. The library stays open. */
static inline void *library_function(const char *library, const char *function,
                                     const char *needed_by)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL); // later calls only count a reference
    CHECK(handle != NULL, "%s: %s; install it, or put its folder into LD_LIBRARY_PATH", needed_by,
          dlerror());
    void *address = dlsym(handle, function);
    CHECK(address != NULL, "%s: %s; install a newer one", needed_by, dlerror());
    return address;
}

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
#define LIBRARY_TEXT(name) LIBRARY_TEXT_OF(name) // of the name after macro expansion
#define LIBRARY_TEXT_OF(name) #name

#endif
