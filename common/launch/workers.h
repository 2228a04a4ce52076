/*
 * workers.h - the ranks of this node as processes: started, watched, ended.
 *
 * A worker leads a session, and so a process group, of its own: a signal to it reaches what it
 * started, and Ctrl-C on the terminal reaches the launcher alone, which passes it on. When the
 * launcher dies, even by SIGKILL, the kernel kills the workers, and a child of the launcher what is
 * left of their groups.
 */
#ifndef COMMON_LAUNCH_WORKERS_H
#define COMMON_LAUNCH_WORKERS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/exit_status.h"

typedef struct {
    pid_t pid; // 0: could not be started
    int error; // errno, if so
    bool running;
    bool has_group; // it, or something it started, is still there
    bool was_signalled; // by us, before it ended
    int status; // as a shell has it: of exit, or 128 + signal
    int signal; // that killed it, or 0
    double ended; // on the clock of seconds_now()
} Worker;

typedef struct {
    Worker *worker; // [num_workers], by local rank; memory shared with the watcher
    int num_workers;
    int num_running;
    int request; // the last signal that asked us to end, or 0
    pid_t watcher; // kills the workers' groups when the launcher is gone
    sigset_t signals; // that wake us: SIGCHLD, and requests to end
    sigset_t old_mask; // blocked before, and in workers
} Workers;

/* From here on requests to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT, and SIGUSR1, which is how Slurm's
 * --signal says that the time is up; unless ignored) are noticed by workers_wait only; workers_free
 * undoes this. */
void workers_init(Workers *workers, int num_workers);
void workers_free(Workers *workers);

/* Starts command with the environment as it is now; output[0] and [1] become its stdout and stderr,
 * unless they are -1. Only local rank 0 has our stdin. False: the program cannot be started (or the
 * machine has no room for it), and counts as a worker that ended with status 127 (there is none) or
 * 126, as with a shell. */
bool workers_start(Workers *workers, int local_rank, char **command, const int output[2]);

/* Sleeps until a worker ends, somebody asks us to end, or `seconds` are over. Returns the signal
 * that asked, or 0. */
int workers_wait(Workers *workers, double seconds);

/* The first worker to fail, or NULL. EXIT_STOPPED is a failure only where another worker ended
 * otherwise, or is still there `patience` seconds later. */
const Worker *workers_failed(const Workers *workers, double patience);

/* Did all end with EXIT_STOPPED; with 0? */
bool workers_stopped(const Workers *workers);
bool workers_done(const Workers *workers);

/* Sends the signal to all that are left, stopped ones too, and SIGKILL `seconds` later, or at once
 * on Ctrl-C. Returns when nothing is left of them. */
void workers_end(Workers *workers, int signal, double seconds);

#endif
