/*
 * agents.h - the launchers of a job's nodes: they find each other, assign ranks, and end together.
 *
 * One ddprun per node, and node 0's serves the store, for the agents and for the ranks. They use it
 * as torchrun's static agents do, so both can be mixed in one job. Under "<run id>/":
 *
 *   torchelastic/role_info/<node>        what a node brings: {"role", "rank", "local_world_size"}
 *   torchelastic/assigned_ranks/<node>   node 0's answer: [first rank, ranks, the same in the role]
 *   torchelastic/agent/terminal_state/num_members    nodes whose workers are done, and
 *   .../last_member                      set by the last of them: the job is over
 *
 * ddprun goes further: all nodes know at once of a failure, none waits for a dead node, and no
 * failure is mistaken for success. ddprun/num_nodes holds the --nnodes of the first node; a node
 * with another value ends the job. A node that fails writes the reason to ddprun/failure/<node> and
 * sets last_member to "failed". ddprun/heartbeat/<node> counts up while that node's launcher lives,
 * and is removed when it leaves; the store outlives them all. role_info/<node>/gone is set when a
 * launcher disconnects, even if it was killed. ddprun/root holds the root cause that the first node
 * found: all nodes report that one.
 */
#ifndef COMMON_LAUNCH_AGENTS_H
#define COMMON_LAUNCH_AGENTS_H

#include "common/comm/store/store.h"
#include "common/launch/failure.h"

/* ---- how they find each other (rendezvous.c) ---- */

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

/* The key of a node: the format is one of those above. */
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

/* ---- how they end together (agents.c) ---- */

#define KEY_NUM_MEMBERS "torchelastic/agent/terminal_state/num_members" // nodes that are done

#define END_FAILED "failed"
#define END_STOPPED "stopped"
#define END_CHANGED "changed" // nodes have come: the job continues with another group
#define END_DONE "<val_ignored>" // torchrun's value

/* How a group ended; NONE: it has not; CHANGED: continues with another one
 * (05_fault_tolerance/elastic_group.h). */
typedef enum {
    VERDICT_NONE,
    VERDICT_DONE,
    VERDICT_STOPPED,
    VERDICT_CHANGED,
    VERDICT_FAILED
} Verdict;

/* What the launcher's children read from the store, in memory shared with them. */
typedef struct {
    char end[32]; // of the job: END_*
    Failure failure; // the first one known; status 0: none
} Findings;

typedef struct {
    const Flags *flags;
    int master_port; // of the store
    Ranks ranks;
    StoreServer *server; // on node 0
    char watched[128]; // what the keys that it watches begin with
    Verdict verdict;
    Findings *found;
    bool stopped; // this node's workers are done, by EXIT_STOPPED
    bool left_out; // the others ended without this node, or node 0 is gone or out of reach
    double done_since; // 0: they are not done

    // Only where there are several nodes:
    bool connected_to_peers; // with them
    bool has_torchrun_nodes; // some are torchrun's, which do not tell of failures
    bool host_is_torchrun; // node 0's is
    Store store;
    pid_t heartbeat;
} Agents;

/* Waits for all nodes. Dies if one does not come. */
void agents_join(Agents *agents, const Flags *flags);

/* Its second part, after agents_open: fixed nodes meet, and begin. */
void agents_meet(Agents *agents);

/* The same in two parts, for elastic nodes. Node 0 opens, which starts the store and sets
 * master_port; then each node connects its `store` and begins. */
void agents_open(Agents *agents, const Flags *flags);
void agents_begin(Agents *agents);

/* Tells the others how this node ended: all its workers are done, or this was its first failure. */
void agents_done(Agents *agents, bool stopped);
void agents_fail(Agents *agents, const Failure *failure);

/* Forks. True in the child, which sends its requests to a store and then calls _exit: within
 * `seconds`, and without a message. False in the launcher after the child has ended; *status is 0
 * unless a request failed. */
bool in_child(double seconds, int *status);

/* Sends requests to the store in a child process, if there are other nodes. If the child fails,
 * some requests were not sent, and part of an answer may still arrive: from then on node 0 counts
 * as out of reach. */
void agents_run_in_child(Agents *agents, void (*requests)(Agents *agents));

/* How the group ended, as all nodes see it; VERDICT_NONE: it has not. Waits for the store, as do
 * the calls that tell the others something: job_store_patience for each answer, and
 * REQUESTS_SECONDS of agents.c more in all. */
Verdict agents_verdict(Agents *agents);

/* After VERDICT_FAILED: the first failure on any node, the same on all of them. The loss of a node
 * explains all others. */
const Failure *agents_root_cause(Agents *agents);

/* All leave together, but none waits longer than another may take to end its workers. */
void agents_leave(Agents *agents);

#endif
