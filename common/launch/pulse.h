/* pulse.h - a child of the launcher that keeps in touch with the launchers of other nodes. */
#ifndef COMMON_LAUNCH_PULSE_H
#define COMMON_LAUNCH_PULSE_H

#include <sys/types.h>

#include "common/dist/store.h"
#include "common/dist/store_protocol.h"
#include "common/launch/failure.h"

/* Keys of the agents; %d is a node. */
#define KEY_BYTES 64
#define KEY_ROLE_INFO_ALL "torchelastic/role_info/"
#define KEY_ROLE_INFO KEY_ROLE_INFO_ALL "%d" // what a node brings, from its launcher
#define KEY_GONE KEY_ROLE_INFO STORE_GONE // which has hung up
#define KEY_PULSE "ddprun/pulse/%d" // counts up as long as the node's launcher lives
#define KEY_FAILURE "ddprun/failure/%d" // the first of a node: see failure.h
#define KEY_END "torchelastic/agent/terminal_state/last_member" // how the job ended: END_*

#define END_FAILED "failed"
#define END_STOPPED "stopped"
#define END_CHANGED "changed" // nodes have come: it goes on as another group
#define END_DONE "<val_ignored>" // torchrun's word for it

#define LOST_HUNG_UP "has not been heard of since it hung up"

const char *node_key(char key[KEY_BYTES], const char *format, int node);

typedef enum {
    PULSE_BEATS,
    PULSE_OVER, // the job has ended: the store knows how
    PULSE_LOST // node 0 is out of reach
} PulseNews;

/* A connection of this node's to the job's store, under the job's prefix. False and errno where
 * there is none within `seconds`, which becomes the timeout of all that is asked later. */
bool pulse_connect(Store *store, const Flags *flags, double seconds);

/* Seconds without an answer of the store after which node 0 is gone. */
double pulse_patience(const Flags *flags);

/* Tells all nodes that the job is over, and why. */
void pulse_publish_failure(Store *store, const Failure *failure);

pid_t pulse_start(const Flags *flags);
/* Never waits. */
PulseNews pulse_news(pid_t pulse);
void pulse_stop(pid_t pulse);

#endif
