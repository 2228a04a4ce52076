/* watchdog.h - a deadline for library calls that have none. */
#ifndef COMMON_COMM_WATCHDOG_H
#define COMMON_COMM_WATCHDOG_H

#include <pthread.h>
#include <stdbool.h>

typedef struct {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    double seconds;
    const char *call, *remedy;
    bool stopped;
} Watchdog;

/* Unless watchdog_stop comes within so many seconds, ends this process with the line "CALL did not
 * end within N s: REMEDY". The watchdog and both texts must stay valid until then. Local. */
void watchdog_start(Watchdog *watchdog, double seconds, const char *call, const char *remedy);
void watchdog_stop(Watchdog *watchdog);

#endif
