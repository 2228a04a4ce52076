/* failure.h - what ended a job, a worker or a launcher on any node, and the report about it. */
#ifndef COMMON_LAUNCH_FAILURE_H
#define COMMON_LAUNCH_FAILURE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/launch/workers.h"

typedef struct Failure {
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

/* "rank 1 on node 0 (alpha): exit status 3: what it said"; of a launcher only its message. Free it
 * with free(). */
char *failure_line(const Failure *failure);

/* Prints to standard error the failure that ended the job: a line, or with extras/watch, if the
 * workers are to blame, also how this node's other ranks ended. */
void report_print(const Failure *root, const Workers *workers, int first_rank);

/* "exit status 3", "killed by SIGTERM". */
#define END_BYTES 64
const char *end_text(int status, int signal, char text[END_BYTES]);

#endif
