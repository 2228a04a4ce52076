/* process_identity.h - is a process of this machine still there, and is it the same one? */
#ifndef FAULT_TOLERANCE_PROCESS_IDENTITY_H
#define FAULT_TOLERANCE_PROCESS_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* When a process started, in clock ticks since boot; 0: there is none. Together with the pid this
 * identifies it, though pids are reused. state, unless NULL: 'R' running, 'S' and 'D' sleeping, 'T'
 * stopped, 'Z' and 'X' ended, as in proc(5). Local. */
uint64_t process_start_ticks(pid_t pid, char *state);

/* Has the process a handler for this signal? One that has just started would be ended by it. */
bool process_catches(pid_t pid, int signal);

#endif
