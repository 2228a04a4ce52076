/*
 * agents.h - the launchers of a job's nodes: they find each other, assign ranks, and end together.
 *
 * - agents_join waits for the other nodes: one ddprun per node, of which node 0's serves the store.
 *   Then start `ranks`.
 * - agents_done or agents_fail tells the others how this node ended. agents_verdict, called every
 *   now and then, says whether the job has ended; after VERDICT_FAILED agents_root_cause says why.
 * - agents_leave, at the end: all leave together.
 * - Until agents_join returns, a store that fails ends the process. After that it does not: node 0
 *   counts as out of reach. No call waits longer than job_store_patience for an answer.
 *
 * They use the store as torchrun's static agents do, so both can be mixed in one job. But ddprun
 * goes further: all nodes learn of a failure at once, none waits for a dead node, and no failure is
 * mistaken for success.
 */
#ifndef COMMON_LAUNCH_AGENTS_H
#define COMMON_LAUNCH_AGENTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/comm/store/store.h"
#include "common/launch/failure.h"

/* ---- keys, under "<run id>/"; %d is a node ---- */

#define KEY_ROLE_INFO_ALL "torchelastic/role_info/"
#define KEY_ROLE_INFO KEY_ROLE_INFO_ALL "%d" // its offer: {"role", "rank", "local_world_size"}
#define KEY_GONE \
    KEY_ROLE_INFO STORE_GONE // set when that launcher disconnects, even if it was killed
#define KEY_ASSIGNED_RANKS "torchelastic/assigned_ranks/%d" // node 0's answer, see assign_ranks
#define KEY_NUM_MEMBERS "torchelastic/agent/terminal_state/num_members" // nodes that are done
#define KEY_END "torchelastic/agent/terminal_state/last_member" // how the job ended: END_*

#define KEY_NUM_NODES "ddprun/num_nodes" // --nnodes and --max-restarts of the first node
#define KEY_HEARTBEAT \
    "ddprun/heartbeat/%d" // counts up while its launcher lives; removed at its end
#define KEY_FAILURE "ddprun/failure/%d" // its first: see failure.h
#define KEY_ROOT "ddprun/root" // the failure that all nodes report
#define KEY_NUM_STOPPED "ddprun/num_stopped" // nodes that are done with EXIT_STOPPED

#define END_FAILED "failed"
#define END_STOPPED "stopped"
#define END_CHANGED "changed" // nodes have joined: the job continues with another group
#define END_DONE "<val_ignored>" // torchrun's value

typedef struct {
    char text[64];
} Key;

Key node_key(const char *format, int node);

/* ---- how they find each other (rendezvous.c) ---- */

/* Is this the name or an address of this machine? */
bool address_is_here(const char *host);

/* Sets up the job's secret: generated for one node, read from --secret-file for several. If
 * several nodes have none, node 0 says so when they meet; the variable is then empty, so that no
 * rank repeats it. Ranks and the store's clients find file and run id in the environment. */
void job_secret_init(const Flags *flags);

/* Connects this node to the job's store, under the job's prefix. False and errno if that takes
 * longer than `seconds`, which is also the timeout of later requests. */
bool job_store_connect(Store *store, const Flags *flags, double seconds);

/* Seconds without an answer from the store after which node 0 counts as gone. */
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

/* This node, as a line of JSON that torchrun's agents understand; free it with free(). Dies if
 * the role is not UTF-8. */
char *node_encode(const Flags *flags, int number);
/* False: invalid, or impossible numbers. */
bool node_decode(Node *node, const char *text, size_t bytes);

/* Ranks are numbered node by node, and again among the nodes of each role. */
Ranks nodes_share_ranks(const Node *nodes, int num_nodes, int node);

/* Connects to node 0's store and waits there for all nodes. Dies if one does not come within
 * flags->join_timeout; all die if one was given a different --nnodes or --max-restarts. */
Ranks rendezvous(Store *store, const Flags *flags);

/* ---- how they end together (agents.c) ---- */

/* How a group ended; NONE: it has not; CHANGED: continues with another one
 * (05_fault_tolerance/elastic_group.h). */
typedef enum {
    VERDICT_NONE,
    VERDICT_DONE,
    VERDICT_STOPPED,
    VERDICT_CHANGED,
    VERDICT_FAILED
} Verdict;

/* What the heartbeat has found. */
enum { HEARTBEAT_LIVES, HEARTBEAT_SAW_END, HEARTBEAT_LOST_NODE_0 };

typedef struct {
    const Flags *flags;
    int master_port; // of the store
    Ranks ranks;
    StoreServer *server; // on node 0
    char watched[128]; // prefix of the keys that it watches
    Verdict verdict;
    char end[32]; // END_*, once it was read
    Failure failure; // the first one known; status 0: none
    double done_since; // 0: they are not done

    // Only where there are several nodes:
    bool has_torchrun_nodes; // some are torchrun's, which do not tell of failures
    bool host_is_torchrun; // node 0's is
    Store store; // failed: node 0 is out of reach, or this is the only node
    Store heartbeat_store; // the thread's
    pthread_t heartbeat_thread;
    atomic_int heartbeat; // HEARTBEAT_*
} Agents;

/* Waits for all nodes. Dies if one does not come. */
void agents_join(Agents *agents, const Flags *flags);

/* agents_join in parts. agents_open starts the store on node 0 and sets master_port. Fixed nodes
 * then call agents_meet; each elastic node connects its `store` and calls agents_begin. */
void agents_open(Agents *agents, const Flags *flags);
void agents_meet(Agents *agents);
void agents_begin(Agents *agents);

void agents_done(Agents *agents, bool stopped);
void agents_fail(Agents *agents, const Failure *failure); // this node's first

/* VERDICT_NONE: the group has not ended. All nodes come to the same verdict. */
Verdict agents_verdict(Agents *agents);

/* Have the others ended without this node, or is node 0 gone or out of reach? */
bool agents_left_out(const Agents *agents);

/* The first failure on any node, the same on all of them. The loss of a node explains all others.
 */
const Failure *agents_root_cause(Agents *agents);

/* All nodes leave together. None waits longer than another may take to end its workers. */
void agents_leave(Agents *agents);

#endif
