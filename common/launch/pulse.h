/* pulse.h - a child process of the launcher that keeps in touch with the launchers of other nodes.
 */
#ifndef COMMON_LAUNCH_PULSE_H
#define COMMON_LAUNCH_PULSE_H

#include <stddef.h>
#include <sys/types.h>

#include "common/dist/store.h"
#include "common/launch/failure.h"

/* Keys of the agents; %d is a node. */
#define KEY_PULSE "ddprun/pulse/%d" // counts up as long as the node's launcher lives
#define KEY_FAILURE "ddprun/failure/%d" // the first of a node: see failure.h
#define KEY_END "torchelastic/agent/terminal_state/last_member" // how the job ended: END_*

#define END_FAILED "failed"
#define END_STOPPED "stopped"
#define END_DONE "<val_ignored>" // torchrun's word for it

typedef struct {
    pid_t pid;
    int news_fd;
} Pulse;

typedef enum { PULSE_BEATS, PULSE_END, PULSE_LOST } PulseNews;

/* A connection of this node's to the job's store, under the job's prefix. False and errno where
 * there is none within `seconds`, which becomes the timeout of all that is asked later. */
bool pulse_connect(Store *store, const Flags *flags, double seconds);

/* Tells all nodes that the job is over, and why. */
void pulse_publish_failure(Store *store, const Failure *failure);

void pulse_start(Pulse *pulse, const Flags *flags);
/* PULSE_END: the job has ended, and how (at most `bytes`); PULSE_LOST: node 0 is out of reach.
 * Never waits. */
PulseNews pulse_news(const Pulse *pulse, char *end, size_t bytes);
void pulse_stop(Pulse *pulse);

#endif
