/* on_device.h - the device under test: the CPU, or a GPU with TEST_DEVICE=cuda in the environment.
 * Device memory is read and written through copies. */
#ifndef TESTS_COMMON_NN_ON_DEVICE_H
#define TESTS_COMMON_NN_ON_DEVICE_H

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/nn/device.h"

static inline const char *test_device(void)
{
    const char *name = getenv("TEST_DEVICE");
    return name != NULL ? name : "cpu";
}

static inline DeviceKind test_device_kind(void)
{
    Args args;
    option_set(args_option("device"), &args, test_device(), NULL);
    return args.device;
}

static inline bool tests_a_cpu(void)
{
    return strcmp(test_device(), "cuda") != 0;
}

/* Returns a copy in host memory; free it. */
static inline void *copied_from(Device *device, const void *memory, size_t bytes)
{
    void *host = mem_calloc(bytes, 1);
    device_copy(device, host, memory, bytes, COPY_TO_HOST);
    return host;
}

#endif
