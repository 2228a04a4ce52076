/*
 * workers.h - the ranks of this node as processes: started, watched, ended; and their folders.
 *
 * A worker leads a session, and so a process group, of its own: a signal to it also reaches what it
 * started, and Ctrl-C on the terminal reaches only the launcher, which passes it on. When the
 * launcher dies, even by SIGKILL, the kernel kills the workers, and a child of the launcher, the
 * watcher, kills what is left of their groups and removes their empty log folders.
 */
#ifndef COMMON_LAUNCH_WORKERS_H
#define COMMON_LAUNCH_WORKERS_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/log.h"
#include "common/launch/flags.h"

/* ---- where a worker leaves its error, and its output if that goes to files ---- */

/*   <log dir>/<run id>_<random>/attempt_<restarts>/<local rank>/error.json stdout.log stderr.log */
typedef struct {
    const Flags *flags;
    char folder[PATH_MAX]; // of the run; empty: none yet, or removed because it was empty
    char attempt[PATH_MAX]; // folder in it
    int (*output)[2]; // stdout and stderr for each worker, by local rank; -1: the launcher's own;
                      // NULL: that for all
    struct Tee *tee; // of extras/watch
} Logs;

/* Allocated in memory shared with the watcher. logs_free prints where the logs are if the user did
 * not choose the folder. */
Logs *logs_init(const Flags *flags);
void logs_free(Logs *logs);

void logs_open(Logs *logs, int first_rank, int restart_count); // creates the folders of an attempt
void logs_start(Logs *logs); // when the workers have been started
void logs_close(Logs *logs); // when they have ended: removes empty folders

/* The path of a worker's file ("error.json"). */
void logs_path(const Logs *logs, int local_rank, const char *name, char path[PATH_MAX]);

/* ---- the processes ---- */

typedef struct {
    pid_t pid; // 0: could not be started
    int error; // errno, if so
    bool running;
    bool has_group; // it, or something it started, still runs
    bool was_signalled; // by us, before it ended
    int status; // as in a shell: exit status, or 128 + signal
    int signal; // that killed it, or 0
    double ended; // on the clock of seconds_now()
} Worker;

typedef struct Workers {
    Worker *worker; // [num_workers], by local rank; memory shared with the watcher
    Logs *logs; // likewise
    int num_workers;
    int num_running;
    int request; // the last signal that asked us to end, or 0
    pid_t watcher; // waits for the launcher's end
    sigset_t signals; // that wake us: SIGCHLD, and requests to end
    bool passes_all_on; // each as it is, not as SIGTERM
    sigset_t old_mask; // restored in workers, and at the end
} Workers;

/* From here on requests to end are only seen by workers_wait, unless they are ignored: the
 * signals `chosen`, or if it is NULL SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, and
 * SIGUSR1 and SIGUSR2, by which Slurm's --signal announces the time limit. workers_free undoes
 * this, except that the last request, unless it was SIGINT, stays ignored until the process ends.
 */
void workers_init(Workers *workers, Logs *logs, const sigset_t *chosen);
void workers_free(Workers *workers);

/* Starts command with the current environment; its output goes where the logs have it. Only local
 * rank 0 gets our stdin. False: the program cannot be started, and counts as a worker that ended
 * with status 127 (not found) or 126 (else), as in a shell. */
bool workers_start(Workers *workers, int local_rank, char **command);

/* Sleeps until a worker ends, a request to end arrives, or `seconds` are over. Returns the
 * request's signal, or 0. */
int workers_wait(Workers *workers, double seconds);

/* The first worker to fail, or NULL. EXIT_STOPPED is a failure only if another worker ended
 * otherwise, or still runs `patience` seconds later. */
const Worker *workers_failed(const Workers *workers, double patience);

/* Did all end with this status? */
bool workers_all_ended_with(const Workers *workers, int status);

/* Sends the signal (SIGTERM for SIGUSR2, SIGALRM and SIGXCPU, unless they were chosen) to all
 * workers left, stopped ones too, and SIGKILL `seconds` later, or at once on Ctrl-C. Returns when
 * all their processes have ended. */
void workers_end(Workers *workers, int signal, double seconds);

/* ---- what extras/watch adds: --redirects, --tee, and a report of several lines ---- */

struct Failure;

/* All NULL in builds without it: then the workers have the launcher's output. */
typedef struct {
    void (*check)(const Flags *flags); // usage error if its flags are wrong
    void (*open)(Logs *logs, int first_rank); // sets logs->output
    void (*start)(Logs *logs); // closes and frees logs->output, and begins to copy
    void (*close)(Logs *logs); // copies what is left
    void (*report)(const struct Failure *root, const Workers *workers, int first_rank);
} RankOutput;

extern const RankOutput rank_output;

#endif
