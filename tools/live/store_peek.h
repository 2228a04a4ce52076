/*
 * store_peek.h - the names of the keys in a job's store.
 *
 * A child process asks the store, because a store that does not answer, or does not know the job's
 * secret, must not block the watcher. Values stay where they are: the page shows names only.
 */
#ifndef TOOLS_LIVE_STORE_PEEK_H
#define TOOLS_LIVE_STORE_PEEK_H

#include <jansson.h>

#include "tools/live/live_job.h"

typedef struct {
    pid_t child; // the child that is asking; 0 if none
    int fd; // the source of its answer
    char *text; // the part of the answer that has come
    size_t length;
    double next; // when to ask again
    json_t *keys; // the last answer, sorted; NULL if there was none
} StorePeek;

/* Call it regularly: asks at most every two seconds, never waits. */
void store_peek(StorePeek *peek, const LiveJob *job);
void store_peek_stop(StorePeek *peek);

#endif
