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

/* Makes the name of a function mean the one in the library, with the parameters its header
 * declares:
 *
 *     #define zlibVersion LIBRARY_FUNCTION(zlibVersion)
 *
 * LIBRARY and NEEDED_BY are the file's own. A macro does not expand its own name again. */
#define LIBRARY_FUNCTION(name) \
    __extension__({ \
        static __typeof__(name) *function; \
        if (function == NULL) \
            function = (__typeof__(name) *)library_function(LIBRARY, #name, NEEDED_BY); \
        function; \
    })
#define LIBRARY_TEXT(number) LIBRARY_TEXT_OF(number) // of what a macro stands for
#define LIBRARY_TEXT_OF(number) #number

#endif
