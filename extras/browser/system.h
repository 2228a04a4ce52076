/* system.h - what wasi-libc lacks of the GNU system: each file for the browser includes it first.
 */
#ifndef EXTRAS_BROWSER_SYSTEM_H
#define EXTRAS_BROWSER_SYSTEM_H

#include <stdlib.h>
#include <unistd.h>

typedef struct {
    int number;
} cpu_set_t; // common/base/host.c: a worker has one core
#define CPU_COUNT(set) 1
#define sched_getaffinity(pid, size, set) ((void)(set), 0)

#define getppid getpid // the programs: the parent lives
#define mkdtemp(path) (mkdir(path, 0700) == 0 ? (path) : NULL) // common/base/folder.c
#define getrandom(buffer, bytes, flags) getentropy(buffer, bytes) // common/save/safetensors.c

#endif
