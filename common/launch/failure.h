/* failure.h - what ended a job, a worker or a launcher on any node, and the report about it. */
#ifndef COMMON_LAUNCH_FAILURE_H
#define COMMON_LAUNCH_FAILURE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/launch/logs.h"
#include "common/launch/workers.h"

typedef struct {
    int status; // the job's from now on, as in a shell; 0: no failure
    int signal; // that killed the worker, or 0
    bool is_unread; // the signal is SIGPIPE, since the reader of the output is gone
    bool is_final; // the rank says that it would fail again (log_last_error)
    double time; // seconds since 1970, by its node's clock
    int node;
    int rank, local_rank; // -1: the launcher itself
    int pid; // 0: never started
    char host[HOST_NAME_MAX + 1];
    char message[1024]; // its last message, or empty
    char log[PATH_MAX]; // on its node, or empty
} Failure;

/* A worker's failure. The message is from its TORCHELASTIC_ERROR_FILE, if it wrote one. */
void failure_of_worker(Failure *failure, const Worker *worker, int rank, int local_rank,
                       const Logs *logs);

/* Loads such a file; free it with json_decref. NULL: there is none, or it is invalid. */
struct json_t *failure_load_file(const char *path);

/* The failure of a launcher, on any node. */
void failure_of_launcher(Failure *failure, int node, int status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Did a come first, so that it may have caused b? */
bool failure_is_earlier(const Failure *a, const Failure *b);

/* The failure as a line of JSON, for the other nodes; free it with free(). */
char *failure_encode(const Failure *failure);
/* False: invalid. */
bool failure_decode(Failure *failure, const char *text, size_t bytes);

#define THICK_RULE "============================================================\n"

/* Prints to standard error the failure that ended the job, then how this node's other ranks ended.
 * One line if the workers are not to blame. */
void report_print(const Failure *root, const Flags *flags, const Workers *workers, int first_rank);

/* "exit status 3", "killed by SIGTERM". */
void report_end(FILE *out, int status, int signal);

#endif
