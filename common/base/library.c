/* Opens shared libraries where the dynamic linker looks for them, and where they were at build time
 * (the Makefile's -rpath). */
#include "common/base/library.h"

#include <dlfcn.h>

#include "common/base/log.h"

void *library_function(const char *library, const char *function, const char *needed_by)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL); // later calls only count a reference
    CHECK(handle != NULL, "%s: %s; install it, or put its folder into LD_LIBRARY_PATH", needed_by,
          dlerror());
    void *address = dlsym(handle, function);
    CHECK(address != NULL, "%s: %s; install a newer one", needed_by, dlerror());
    return address;
}
