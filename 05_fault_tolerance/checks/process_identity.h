/* process_identity.h - identifies a process of this machine and reads its state. */
#ifndef FAULT_TOLERANCE_PROCESS_IDENTITY_H
#define FAULT_TOLERANCE_PROCESS_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Returns when a process started, in clock ticks since boot, or 0 if there is none. Together with
 * the pid this identifies it, though pids are reused. state, unless NULL: 'R' running, 'S' and 'D'
 * sleeping, 'T' stopped, 'Z' and 'X' ended, as in proc(5). Local. */
uint64_t process_start_ticks(pid_t pid, char *state);

/* Returns whether the process handles this signal, which would end one that has just started. */
bool process_catches(pid_t pid, int signal);

#endif
