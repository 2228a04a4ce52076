/*
 * group.h - who takes part in the next attempt: the nodes of a job whose group may be formed again.
 *
 * Every attempt is a group of its own, with a store of its own (agents.h), which is empty. Where
 * the nodes are fixed (--nnodes 2 --node-rank 0) it is served at the same address again, the one
 * that all nodes know. Elastic ones (--nnodes 1:4 --rdzv-endpoint HOST:PORT) meet in one more
 * store, at the endpoint. It is served for the whole job by the first launcher on HOST, which is
 * node 0 of every attempt and serves that attempt's store too, at a free port. Its keys:
 *
 *   ddprun/job             flags that all must have in common
 *   ddprun/num_agents      so many have come; each takes its number from here
 *   ddprun/agent/<n>       set by agent n, so that .../gone appears when it hangs up
 *   ddprun/waiting         a queue: who wants to be in the next group, as nodes.h has it
 *   ddprun/seat/<n>        node 0's answer, see seat.h
 *
 * As with torchrun, a group is formed when the most nodes are there, or last_call_timeout after the
 * fewest are. Who comes later makes the others start anew, if there is room; if not, it is a spare
 * that waits until one is lost. And a job lives and dies with the host of its rendezvous: without
 * it nobody knows who else is there, and the others end.
 */
#ifndef COMMON_LAUNCH_GROUP_H
#define COMMON_LAUNCH_GROUP_H

#include "common/launch/agents.h"
#include "common/launch/nodes.h"

typedef struct {
    Flags *flags; // node_rank, max_nodes, master_port: those of the present attempt
    int restart_count; // attempts before it
    int num_failures; // of these, that ended because a rank failed

    // Only where nodes come and go:
    int min_nodes, max_nodes, port; // as the flags had them
    StoreServer *server; // on node 0
    Store store;
    int number; // of this agent
    Node *waiting; // [num_waiting], on node 0: in the order in which they came
    int num_waiting;
} Group;

/* Where nodes come and go, finds the others; dies where there are none. */
void group_open(Group *group, Flags *flags);

/* Forms the group of the next attempt. Ends the process, with the job's status and a line, where
 * there will be none: too few nodes came, or the job is over. */
void group_join(Group *group, Agents *agents);

/* On node 0: have nodes come that there is room for? Never waits. */
bool group_may_grow(Group *group);

/* Tells who still waits that the job has ended with this status. */
void group_close(Group *group, int status);

#endif
