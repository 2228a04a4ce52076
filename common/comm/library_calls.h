/* library_calls.h - for backends that hand collectives to a library: deadlines for calls that have
 * none, the bytes to copy, and a comparison of the ranks' calls. */
#ifndef COMMON_COMM_LIBRARY_CALLS_H
#define COMMON_COMM_LIBRARY_CALLS_H

#include <pthread.h>

#include "common/comm/backend.h"

typedef struct {
    pthread_t thread;
    int stop_fd; // eventfd, readable once the thread must stop
    double seconds;
    const char *call, *remedy;
} Watchdog;

/* Ends this process with the line "CALL did not end within N s: REMEDY" unless watchdog_stop is
 * called within `seconds`. The watchdog and both texts must stay valid until then. Local. */
void watchdog_start(Watchdog *watchdog, double seconds, const char *call, const char *remedy);
void watchdog_stop(Watchdog *watchdog);

/* Returns the bytes that this rank's call reads at `in` and writes at `out`. */
void collective_extents(const Collective *collective, size_t *in_bytes, size_t *out_bytes);

/* Dies unless the exchanged calls of all ranks of pg match, for --check-collectives. */
void collectives_compare(const ProcessGroup *pg, Collective *all);

#endif
