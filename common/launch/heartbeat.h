/* heartbeat.h - a child of the launcher that sends and checks the nodes' heartbeats. */
#ifndef COMMON_LAUNCH_HEARTBEAT_H
#define COMMON_LAUNCH_HEARTBEAT_H

#include <sys/types.h>

#include "common/comm/store/store.h"
#include "common/comm/store/store_protocol.h"
#include "common/launch/failure.h"

/* Keys of the agents; %d is a node. */
#define KEY_BYTES 64
#define KEY_ROLE_INFO_ALL "torchelastic/role_info/"
#define KEY_ROLE_INFO KEY_ROLE_INFO_ALL "%d" // what a node offers, from its launcher
#define KEY_GONE KEY_ROLE_INFO STORE_GONE // set when that launcher disconnects
#define KEY_HEARTBEAT "ddprun/heartbeat/%d" // counts up while the node's launcher lives
#define KEY_FAILURE "ddprun/failure/%d" // a node's first: see failure.h
#define KEY_END "torchelastic/agent/terminal_state/last_member" // how the job ended: END_*

#define END_FAILED "failed"
#define END_STOPPED "stopped"
#define END_CHANGED "changed" // nodes have come: the job continues with another group
#define END_DONE "<val_ignored>" // torchrun's value

#define LOST_HUNG_UP "has not been heard of since it hung up"

const char *node_key(char key[KEY_BYTES], const char *format, int node);

typedef enum {
    HEARTBEAT_ALIVE,
    HEARTBEAT_JOB_OVER, // the job has ended: the store has the reason
    HEARTBEAT_HOST_LOST // node 0 is out of reach
} HeartbeatNews;

/* Connects this node to the job's store, under the job's prefix. False and errno if that takes
 * longer than `seconds`, which is also the timeout of later requests. */
bool heartbeat_connect(Store *store, const Flags *flags, double seconds);

/* Seconds without an answer from the store after which node 0 is gone. */
double heartbeat_patience(const Flags *flags);

/* Tells all nodes that the job has failed, and why. */
void heartbeat_publish_failure(Store *store, const Failure *failure);

pid_t heartbeat_start(const Flags *flags);
/* Never waits. */
HeartbeatNews heartbeat_news(pid_t heartbeat);
void heartbeat_stop(pid_t heartbeat);

#endif
