/* process.h - is a process of this machine still there, and is it the one that was meant? */
#ifndef COMMON_BASE_PROCESS_H
#define COMMON_BASE_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

/* When a process started, in clock ticks since the machine did; 0: there is none. With its number
 * it tells a process from a later one of the same number. Its state, unless NULL: 'R' running, 'S'
 * and 'D' waiting, 'T' stopped, 'Z' and 'X' ended, as in proc(5). Local. */
uint64_t process_start_ticks(pid_t pid, char *state);

#endif
