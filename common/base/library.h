/* library.h - shared libraries that are opened when they are needed. cuBLAS and NCCL are 900 MB:
 * linking with them costs 0.1 s and 200 MB at every start, and the program would not even start on
 * a node without them. A GPU requested without a library is a one-line error. */
#ifndef COMMON_BASE_LIBRARY_H
#define COMMON_BASE_LIBRARY_H

#include <dlfcn.h>

#include "common/base/log.h"

/* Returns the address of a function in e.g. "libcublas.so.13". Dies if library or function is
 * missing, naming the option that needs it (`needed_by`) and what to do. The library stays open. */
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

/* A struct of pointers to a library's functions, and its value; the file defines LIBRARY,
 * NEEDED_BY:
 *
 *     #define ZLIB(FUNCTION) FUNCTION(version, zlibVersion) FUNCTION(bound, compressBound)
 *     struct Zlib { ZLIB(LIBRARY_POINTER) } zlib = { ZLIB(LIBRARY_FIND) };
 *     zlib.version(); */
#define LIBRARY_POINTER(member, function) __typeof__(function) *member;
#define LIBRARY_FIND(member, function) .member = library_function(LIBRARY, #function, NEEDED_BY),
#define LIBRARY_TEXT(number) LIBRARY_TEXT_OF(number) // expands macros first
#define LIBRARY_TEXT_OF(number) #number

#endif
