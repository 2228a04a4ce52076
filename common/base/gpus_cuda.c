/* CUDA counts the GPUs: the driver's files ignore containers, job limits and MIG. */
#include "common/base/host.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/cuda.h"

enum { MAX_GPUS = 255 }; // the largest exit status

int gpus_visible(void)
{
    int count = 0; // on failure: no driver, no device, none visible
    return cudaGetDeviceCount(&count) != cudaSuccess ? 0 : count < MAX_GPUS ? count : MAX_GPUS;
}

/* Counts in a child, which returns the number as its exit status, so this process may still fork,
 * and a launcher holds no CUDA context. */
int gpus_count(void)
{
    const pid_t child = fork();
    SYS_CHECK(child);
    if (child == 0)
        _exit(gpus_visible());
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        CHECK(errno == EINTR, "waitpid: %s", strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}
