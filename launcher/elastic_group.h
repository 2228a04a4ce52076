/* elastic_group.h - which nodes take part in the next attempt, in a job that may re-form its group.
 *
 * Every attempt has a group and an empty store of its own (launch.h), since PyTorch's ranks use the
 * same keys in each. With fixed nodes (--nnodes 2 --node-rank 0) it is always at the same address,
 * which all nodes know. Elastic nodes (--nnodes 1:4 --rdzv-endpoint HOST:PORT) find each other in
 * one more store, at the endpoint. The first launcher on HOST serves it for the whole job; it is
 * node 0 of every attempt and serves that attempt's store, at a free port. The endpoint's keys:
 *
 *   ddprun/job             flags that all must have in common
 *   ddprun/identity        of the job: an agent that was cut off must not rejoin a different one
 *   ddprun/num_agents      counts the agents; each takes its number from here
 *   ddprun/agent/<n>       set by agent n, so that .../gone appears when it disconnects
 *   ddprun/waiting         a queue of nodes (launch.h) that want to be in the next group
 *   ddprun/assignment/<n>  node 0's answer, see node_assignment.h
 *
 * As with torchrun, a group is formed when the maximum number of nodes has arrived, or
 * last_call_timeout after the minimum has. A later node makes the others restart, if there is room;
 * if not, it waits as a spare until a node is lost. A job ends when the host of its rendezvous is
 * lost: without it the nodes cannot find each other. A node that cannot reach it tries again for
 * join_timeout. */
#ifndef LAUNCHER_ELASTIC_GROUP_H
#define LAUNCHER_ELASTIC_GROUP_H

#include "launcher/attempt_history.h"
#include "launcher/launch.h"
#include "launcher/torchrun_flags.h"

typedef struct {
    Flags *flags; // node_rank, max_nodes, master_addr, master_port: the current attempt's
    const TorchrunFlags *torchrun; // flags for the workers
    int restart_count; // attempts before the current one
    int num_failures; // how many of these ended because a rank failed
    int status; // status of a job that is over, see group_join
    History history; // how its attempts ended

    // Elastic only:
    int min_nodes, max_nodes, port; // as given in the flags
    char host[256]; // the endpoint's host, as given in the flags
    StoreServer *server; // the endpoint's server, on node 0
    Store store;
    char identity[64]; // the job's identity
    int number; // this agent's number, on the other nodes (0 if none on this connection yet)
    bool is_queued; // on the other nodes: node 0 knows that this one waits
    Node *waiting; // [num_waiting], on node 0: in the order in which they came
    int num_waiting;
} Group;

extern const MoreFlags more_flags; // for flags_parse

/* Connects elastic nodes to the rendezvous, or dies. */
void group_open(Group *group, Flags *flags, const TorchrunFlags *torchrun);

/* Forms the group of the next attempt. Returns false if the job has ended without this node; logs
 * that, and sets group->status. Dies if too few nodes came. */
bool group_join(Group *group, Agents *agents);

/* Returns whether, on node 0, a node waits for which there is room. Never waits. */
bool group_may_grow(Group *group);

/* Returns whether the others have ended without this node, or node 0 is gone or out of reach. */
bool agents_left_out(const Agents *agents);

/* Ends the attempt because new nodes have arrived, unless it is about to end anyway. */
void group_change(Agents *agents);

/* Notifies the waiting nodes that the job has ended with this status. */
void group_close(Group *group, int status);
void group_free(Group *group); // called after the last attempt

#endif
