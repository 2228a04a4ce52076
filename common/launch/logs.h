/*
 * logs.h - where the workers' output goes: to the launcher's own, to files, or to both.
 *
 *   <log dir>/<run id>_<random>/attempt_<restarts>/<local rank>/stdout.log   stderr.log error.json
 *
 * - logs_open creates an attempt's folders and files, and `output`, for workers_start.
 * - logs_start, after it, closes `output` here and begins to copy what is teed: through a pipe to a
 *   thread, which writes it to the file unchanged, and to the console line by line after a prefix
 *   with the rank. A redirected stream goes straight to its file.
 * - logs_close, when the workers have ended, copies what is left and removes empty folders.
 */
#ifndef COMMON_LAUNCH_LOGS_H
#define COMMON_LAUNCH_LOGS_H

#include <limits.h>

#include "common/launch/flags.h"

typedef struct {
    const Flags *flags;
    char folder[PATH_MAX]; // of the run; empty: none yet, or removed because it was empty
    char attempt[PATH_MAX]; // folder in it
    int (*output)[2]; // stdout and stderr for each worker, by local rank; -1: the launcher's own
    struct Tee *tee; // NULL: nothing is teed
} Logs;

/* Allocated in memory shared with the watcher. logs_free prints where the logs are if the user did
 * not choose the folder. */
Logs *logs_init(const Flags *flags);
void logs_free(Logs *logs);

void logs_open(Logs *logs, int first_rank, int restart_count);
void logs_start(Logs *logs);
void logs_close(Logs *logs);

/* Removes this attempt's empty folders and, without --log-dir, error files that a report has shown.
 * Makes only plain system calls, so a child of a threaded process may call it. */
void logs_remove_empty(Logs *logs);

/* The path of a worker's file ("error.json"). */
void logs_path(const Logs *logs, int local_rank, const char *name, char path[PATH_MAX]);

/* ---- --tee, which is in extras/watch ---- */

extern const bool tee_is_available; // without it --tee is a usage error

/* Returns the descriptor for a worker's stream. What is written to it goes unchanged to file_fd,
 * which belongs to the tee from now on, and, unless console_fd is -1, to console_fd with the prefix
 * of this rank before each line. *tee is NULL before the first stream. */
int tee_add(struct Tee **tee, int file_fd, int console_fd, const Flags *flags, int rank,
            int local_rank);
void tee_start(struct Tee *tee); // begins to copy
void tee_finish(struct Tee *tee); // copies what is left, incomplete lines too, and frees the tee

#endif
