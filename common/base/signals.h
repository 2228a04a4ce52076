/* signals.h - names of signals, threads that receive none, and waits that outlast a stop. */
#ifndef COMMON_BASE_SIGNALS_H
#define COMMON_BASE_SIGNALS_H

#include <poll.h>
#include <pthread.h>

/* Returns "SIGTERM", or "signal 35" if it has no name. Valid until the next call. */
const char *signal_name(int signal);

/* Calls pthread_create with all signals blocked, because they are for the main thread, which reads
 * what the handlers set. Returns 0 or an errno. */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Returns the time on the clock of all deadlines. It stands still while this process does not run:
 * if a whole job is stopped and continued, or its machine is suspended, no timeout runs out
 * meanwhile. To notice that, it must be read often: a gap of more than a second between two
 * readings counts as 0.2 s. So a wait sleeps in poll_awake, which is poll with seconds (INFINITY:
 * no limit) and reads it. */
double seconds_awake(void);
double seconds_awake_at_tick(void); // up to 10 ms old, but much faster to read
int poll_awake(struct pollfd *polled, nfds_t count, double seconds);
#define AWAKE_LOOK_SECONDS 0.2 // time between two readings by a wait that sleeps elsewhere

#endif
