/*
 * store_peek.h - the names of the keys in a job's store.
 *
 * A child process asks, since a store that does not answer, or does not know the job's secret, must
 * not keep the watcher. Values stay where they are: the page shows names only.
 */
#ifndef TOOLS_LIVE_STORE_PEEK_H
#define TOOLS_LIVE_STORE_PEEK_H

#include <jansson.h>

#include "tools/live/live_job.h"

typedef struct {
    pid_t child; // that asks now; 0: none
    int fd; // where its answer comes from
    char *text; // of the answer, as far as it has come
    size_t length;
    double next; // when to ask again
    json_t *keys; // the last answer, sorted; NULL: there was none
} StorePeek;

/* Call it now and then: asks at most every two seconds, never waits. */
void store_peek(StorePeek *peek, const LiveJob *job);
void store_peek_stop(StorePeek *peek);

#endif
