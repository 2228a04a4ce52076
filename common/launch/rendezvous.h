/* rendezvous.h - the launchers of all nodes find each other in the store and assign ranks. */
#ifndef COMMON_LAUNCH_RENDEZVOUS_H
#define COMMON_LAUNCH_RENDEZVOUS_H

#include "common/comm/store/store.h"
#include "common/comm/store/store_protocol.h"
#include "common/launch/flags.h"

/* Keys of the agents; %d is a node. */
#define KEY_ROLE_INFO_ALL "torchelastic/role_info/"
#define KEY_ROLE_INFO KEY_ROLE_INFO_ALL "%d" // what a node offers, from its launcher
#define KEY_GONE KEY_ROLE_INFO STORE_GONE // set when that launcher disconnects
#define KEY_HEARTBEAT "ddprun/heartbeat/%d" // counts up while the node's launcher lives
#define KEY_FAILURE "ddprun/failure/%d" // a node's first: see failure.h
#define KEY_END "torchelastic/agent/terminal_state/last_member" // how the job ended: END_*

typedef struct {
    char text[64];
} Key;

Key node_key(const char *format, int node);

/* Is this the name or an address of this machine? */
bool address_is_here(const char *host);

/* Connects this node to the job's store, under the job's prefix. False and errno if that takes
 * longer than `seconds`, which is also the timeout of later requests. */
bool job_store_connect(Store *store, const Flags *flags, double seconds);

/* Seconds without an answer from the store after which node 0 is gone. */
double job_store_patience(const Flags *flags);

/* What a node offers. */
typedef struct {
    char role[256];
    int num_ranks;
    int number; // its own number; 0: none
} Node;

typedef struct {
    int first_rank, world_size; // of this node's ranks; of the job
    int first_role_rank, role_world_size; // the same among the ranks of this node's role
} Ranks;

/* This node, as a line of JSON that torchrun's agents understand; free it with free(). Dies where
 * the role is no text. */
char *node_encode(const Flags *flags, int number);
/* False: invalid, or impossible numbers. */
bool node_decode(Node *node, const char *text, size_t bytes);

/* Ranks are numbered node by node, and again among the nodes of each role. */
Ranks nodes_share_ranks(const Node *nodes, int num_nodes, int node);

/* Connects to node 0's store and waits there for all nodes. Dies if one does not come within
 * flags->join_timeout; all nodes die if one was given another --nnodes or --max-restarts. */
Ranks rendezvous(Store *store, const Flags *flags);

#endif
